// One field of a setting: its name, the input, and what it does.
import { Plus } from "lucide-react"
import { useId, useState } from "react"
import { Select } from "../../components/Select"
import { useTranslate } from "../../locales"
import { useAdministrationText } from "../../locales/administration"
import { MASK, joinLines, parseLines, parseSuggestion, type FieldKind } from "./fieldKinds"

export interface FieldInputProps {
  label: string
  kind: FieldKind
  value: unknown
  onChange: (value: unknown) => void
  hint?: string | undefined
  problem?: string | undefined
  choices?: string[]
  /** Returns the word for a choice; the choice itself is shown if this is left out. */
  nameChoice?: ((choice: string) => string) | undefined
  /** What the values of a map are; texts if this is left out. */
  values?: string | null
  /** Whether the values of a map are secrets. */
  secret?: boolean
  required?: boolean
}

export function FieldInput(props: FieldInputProps) {
  const { label, kind, hint, problem, required } = props
  const t = useTranslate()
  const id = useId()
  const about = [hint && `${id}-hint`, problem && `${id}-problem`].filter(Boolean).join(" ") || undefined
  const isGroup = kind === "map" || kind === "choices"
  const title = (
    <>
      {label}
      {required && (
        <span className="required" aria-hidden>
          {t("common.required")}
        </span>
      )}
    </>
  )
  const body = (
    <>
      {isGroup ? kind === "map" ? <MapInput {...props} /> : <ChoicesInput {...props} /> : <PlainInput {...props} id={id} describedBy={about} />}
      {hint && <small id={`${id}-hint`}>{hint}</small>}
      {problem && (
        <p className="problem" id={`${id}-problem`}>
          {problem}
        </p>
      )}
    </>
  )
  if (isGroup)
    return (
      <div className="field" role="group" aria-label={label} aria-describedby={about}>
        <span className="field-name">{title}</span>
        {body}
      </div>
    )
  return (
    <div className="field">
      <label htmlFor={id}>{title}</label>
      {body}
    </div>
  )
}

function PlainInput({ id, describedBy, label, kind, value, onChange, choices = [], nameChoice = String, problem, required }: FieldInputProps & { id: string; describedBy: string | undefined }) {
  const t = useTranslate()
  const a = useAdministrationText()
  const common = { id, "aria-describedby": describedBy, "aria-invalid": problem ? true : undefined, required }
  switch (kind) {
    case "secret":
      return <SecretInput {...common} label={label} value={value} onChange={onChange} />
    case "long_text":
      return <textarea {...common} rows={8} value={String(value ?? "")} onChange={(event) => onChange(event.target.value || undefined)} />
    case "list":
    case "choice_or_list":
      return <LinesInput {...common} choices={kind === "list" ? [] : choices} value={value} onChange={onChange} />
    case "choice":
    case "boolean": {
      const options = kind === "choice" ? choices.map((choice) => [choice, nameChoice(choice)] as const) : ([["true", t("common.yes")], ["false", t("common.no")]] as const)
      const change = (text: string) => onChange(text === "" ? undefined : kind === "boolean" ? text === "true" : text)
      return (
        <Select {...common} label={label} value={String(value ?? "")} onChange={change} options={[{ value: "", label: a("byDefault") }, ...options.map(([choice, name]) => ({ value: choice, label: name }))]} />
      )
    }
    case "integer":
    case "number":
      return <input {...common} type="number" step={kind === "integer" ? 1 : "any"} value={typeof value === "number" ? value : ""} onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.valueAsNumber)} />
    default:
      return (
        <>
          <input {...common} spellCheck={false} autoComplete="off" list={choices.length ? `${id}-choices` : undefined} value={String(value ?? "")} onChange={(event) => onChange(kind === "number_or_choice" ? parseSuggestion(event.target.value) : event.target.value || undefined)} />
          {choices.length > 0 && (
            <datalist id={`${id}-choices`}>
              {choices.map((choice) => (
                <option key={choice} value={choice} />
              ))}
            </datalist>
          )}
        </>
      )
  }
}

interface SecretInputProps {
  id?: string
  label: string
  value: unknown
  onChange: (value: unknown) => void
  "aria-label"?: string
  "aria-describedby"?: string | undefined
  "aria-invalid"?: boolean | undefined
  required?: boolean | undefined
}

/** A secret that is written and never shown. One that is stored stays until another is typed or it is given up. */
function SecretInput({ label, value, onChange, required, ...input }: SecretInputProps) {
  const a = useAdministrationText()
  const [wasStored] = useState(value === MASK)
  const isKept = value === MASK
  return (
    <span className="secret-input">
      <input {...input} required={required && !isKept} type="password" autoComplete="new-password" spellCheck={false} placeholder={isKept ? a("stored") : ""} value={isKept ? "" : String(value ?? "")} onChange={(event) => onChange(event.target.value || (wasStored ? MASK : undefined))} />
      {isKept && (
        <button type="button" className="quiet" aria-label={a("forgetOf", { name: label })} onClick={() => onChange(undefined)}>
          {a("forget")}
        </button>
      )}
    </span>
  )
}

function LinesInput({ value, onChange, choices, ...input }: { id: string; choices: string[]; value: unknown; onChange: (value: unknown) => void; required?: boolean | undefined }) {
  // The text is kept as it is typed: a line that is still empty is no item of the list yet.
  const [text, setText] = useState(joinLines(value))
  const change = (typed: string) => {
    setText(typed)
    onChange(parseLines(typed, choices))
  }
  return <textarea {...input} className="mono" rows={Math.min(8, Math.max(2, text.split("\n").length))} spellCheck={false} value={text} onChange={(event) => change(event.target.value)} />
}

function ChoicesInput({ value, onChange, choices = [] }: FieldInputProps) {
  const chosen = Array.isArray(value) ? (value as string[]) : []
  const toggle = (choice: string) => {
    const next = chosen.includes(choice) ? chosen.filter((other) => other !== choice) : [...chosen, choice]
    onChange(next.length ? next : undefined)
  }
  return (
    <span className="choice-row">
      {choices.map((choice) => (
        <label key={choice}>
          <input type="checkbox" checked={chosen.includes(choice)} onChange={() => toggle(choice)} /> {choice}
        </label>
      ))}
    </span>
  )
}

type Row = [name: string, value: unknown]

function MapInput({ label, value, onChange, values, choices = [], secret }: FieldInputProps) {
  const a = useAdministrationText()
  // The rows are kept as they are typed: two of them may have the same or no name for a while.
  const [rows, setRows] = useState<Row[]>(() => Object.entries((value ?? {}) as Record<string, unknown>))
  const change = (next: Row[]) => {
    setRows(next)
    const filled = next.filter(([name]) => name.trim() !== "")
    onChange(filled.length ? Object.fromEntries(filled.map(([name, inner]) => [name.trim(), inner ?? ""])) : undefined)
  }
  const replace = (at: number, row: Row) => change(rows.map((old, index) => (index === at ? row : old)))
  return (
    <>
      {rows.map(([name, inner], at) => (
        <span className="table-row" key={at}>
          <input aria-label={a("rowName", { field: label, n: at + 1 })} placeholder={a("name")} spellCheck={false} value={name} onChange={(event) => replace(at, [event.target.value, inner])} />
          {secret ? (
            <SecretInput aria-label={a("rowValue", { field: label, n: at + 1 })} label={name} value={inner} onChange={(typed) => (typed === undefined && inner === MASK ? change(rows.filter((_, index) => index !== at)) : replace(at, [name, typed]))} />
          ) : values === "choice" ? (
            <Select label={a("rowValue", { field: label, n: at + 1 })} value={String(inner ?? "")} onChange={(choice) => replace(at, [name, choice])} options={["", ...choices].map((choice) => ({ value: choice, label: choice }))} />
          ) : values === "number" || values === "integer" ? (
            <input aria-label={a("rowValue", { field: label, n: at + 1 })} type="number" step="any" value={typeof inner === "number" ? inner : ""} onChange={(event) => replace(at, [name, event.target.value === "" ? undefined : event.target.valueAsNumber])} />
          ) : (
            <input aria-label={a("rowValue", { field: label, n: at + 1 })} spellCheck={false} value={String(inner ?? "")} onChange={(event) => replace(at, [name, event.target.value])} />
          )}
        </span>
      ))}
      <button type="button" className="quiet small" onClick={() => change([...rows, ["", undefined]])}>
        <Plus aria-hidden /> {a("addRow")}
      </button>
    </>
  )
}
