// The form of an entry, made from the server's description of its kind. It is saved as a whole.
import { useState, type FormEvent, type ReactNode } from "react"
import { JsonView } from "../../components/JsonView"
import { ProblemText } from "../../components/ProblemText"
import { useTranslate } from "../../locales"
import { useAdministrationText } from "../../locales/administration"
import { HttpError } from "../../wire/http"
import type { SettingEntry, SettingField } from "../../wire/types"
import { useProblem } from "../../wire/useProblem"
import { findFieldProblem, shortenProblems, withValue, type Values } from "./fieldKinds"
import { findNewer, saveEntry } from "./requests"
import { SettingFieldInput } from "./SettingFieldInput"

interface EntryFormProps {
  kind: string
  name: string
  fields: SettingField[]
  /** The entry to change; null for a new one. */
  entry: SettingEntry | null
  /** The names of the fields that are always shown. The others are shown on demand; all are if this is left out. */
  mainFields?: string[] | undefined
  /** The values of a new entry to begin with. */
  initial?: Values | undefined
  /** Values to choose from, by field; another one may be typed as well. */
  suggestions?: Record<string, string[]> | undefined
  /** What stands above the fields, such as an input for the name. */
  head?: ReactNode
  /** What stands below the fields. It gets the value as it is in the form. */
  children?: (value: Values) => ReactNode
  disabled?: boolean
  onSaved: (entry: SettingEntry) => unknown
  onCancel: () => void
}

export function EntryForm({ kind, name, fields, entry, mainFields, initial, suggestions, head, children, disabled, onSaved, onCancel }: EntryFormProps) {
  const t = useTranslate()
  const a = useAdministrationText()
  const isPlain = fields.length === 1 && fields[0]!.name === name // the whole entry is one value
  const textKind = kind === "general" && !isPlain ? name : kind
  const toValues = (shown: SettingEntry | null): Values => (!shown ? (initial ?? {}) : isPlain ? { [name]: shown.value } : (shown.value as Values))
  const [values, setValues] = useState<Values>(() => toValues(entry))
  const [version, setVersion] = useState(entry?.version ?? "")
  const [round, setRound] = useState(0) // inputs keep what is typed, so they are made anew for other values
  const [newer, setNewer] = useState<SettingEntry | null | undefined>(undefined)
  const [fieldProblems, setFieldProblems] = useState<Record<string, string>>({})
  const [problem, fail, clear] = useProblem()
  const [busy, setBusy] = useState(false)
  const save = async (event: FormEvent) => {
    event.preventDefault()
    event.stopPropagation()
    setBusy(true)
    clear()
    setFieldProblems({})
    try {
      const saved = await saveEntry(kind, name, isPlain ? (values[name] ?? "") : values, version)
      setVersion(saved.version) // what follows may fail, and then it is saved again
      await Promise.resolve(onSaved(saved)).catch(fail)
    } catch (error) {
      const current = findNewer<SettingEntry>(error)
      if (current !== undefined) setNewer(current)
      else {
        fail(error)
        setFieldProblems(error instanceof HttpError ? shortenProblems(error.fields, textKind) : {})
      }
    } finally {
      setBusy(false)
    }
  }
  const settle = (chosen: Values) => {
    setValues(chosen)
    setVersion(newer?.version ?? "")
    setNewer(undefined)
    setRound(round + 1)
  }
  const shown = mainFields ? mainFields.flatMap((main) => fields.filter((field) => field.name === main)) : fields
  const others = fields.filter((field) => !shown.includes(field))
  // An entry that is one value has errors about itself and about the items inside of it.
  const findProblem = (field: string) => (isPlain ? Object.values(fieldProblems).join("; ") : findFieldProblem(fieldProblems, field))
  const renderField = (field: SettingField) => (
    <SettingFieldInput key={`${round}/${field.name}`} kind={textKind} field={field} suggestions={suggestions?.[field.name]} value={values[field.name]} problem={findProblem(field.name)} onChange={(value) => setValues((old) => withValue(old, field.name, value))} />
  )
  const hasFieldProblem = fields.some((field) => findProblem(field.name))
  return (
    <form className="entry-form" onSubmit={(event) => void save(event)}>
      {head}
      {shown.map(renderField)}
      {others.length > 0 && (
        <details open={others.some((field) => findProblem(field.name)) || undefined}>
          <summary>{a("moreFields")}</summary>
          <div className="entry-form">{others.map(renderField)}</div>
        </details>
      )}
      {children?.(values)}
      {newer !== undefined && (
        <div className="newer" role="alert">
          <p>{a(newer ? "outdated" : "outdatedGone")}</p>
          {newer && <JsonView value={newer.value} />}
          <div className="button-row">
            {newer && (
              <button type="button" onClick={() => settle(toValues(newer))}>
                {a("useNewer")}
              </button>
            )}
            <button type="button" onClick={() => settle(values)}>
              {a("keepMine")}
            </button>
          </div>
        </div>
      )}
      <ProblemText text={hasFieldProblem ? "" : problem} />
      <footer>
        <button type="button" onClick={onCancel}>
          {t("common.cancel")}
        </button>
        <button className="primary" disabled={busy || disabled || newer !== undefined}>
          {t("common.save")}
        </button>
      </footer>
    </form>
  )
}
