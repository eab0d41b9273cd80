// The input of a field that the server describes, and of the fields inside of it.
import { Plus } from "lucide-react"
import { useId, useState } from "react"
import { useAdministrationText, useOptionalText } from "../../locales/administration"
import type { SettingField } from "../../wire/types"
import { FieldInput } from "./FieldInput"
import { withValue, type Values } from "./fieldKinds"

interface SettingFieldInputProps {
  /** The kind of setting, or the field that this one is inside of. */
  kind: string
  field: SettingField
  /** Values to choose from where the server lists none; another one may be typed as well. */
  suggestions?: string[] | undefined
  value: unknown
  problem: string
  onChange: (value: unknown) => void
}

/** The input of a field, with the page's words for it, or the server's where the page has none. */
export function SettingFieldInput({ kind, field, suggestions = [], value, problem, onChange }: SettingFieldInputProps) {
  const findText = useOptionalText()
  const label = findText(`field.${kind}.${field.name}`) ?? field.name
  const hint = findText(`effect.${kind}.${field.name}`) ?? (field.effect || field.expects)
  if (field.type === "table" || field.type === "tables" || field.type === "entries") return <NestedInput field={field} label={label} hint={hint} value={value} problem={problem} onChange={onChange} />
  return <FieldInput label={label} hint={hint} kind={field.type} values={field.values} choices={field.choices.length ? field.choices : suggestions} nameChoice={(choice) => findText(`choice.${kind}.${field.name}.${choice}`) ?? choice} secret={field.secret} required={field.required} value={value} problem={problem} onChange={onChange} />
}

interface NestedInputProps {
  field: SettingField
  label: string
  hint: string
  value: unknown
  problem: string
  onChange: (value: unknown) => void
}

/** A table of fields, a list of such tables, or several of them by name. It is closed until somebody opens it. */
function NestedInput({ field, label, hint, value, problem, onChange }: NestedInputProps) {
  const id = useId()
  const isSet = value !== undefined && value !== null && Object.keys(value).length > 0
  return (
    <details className="nested" open={isSet || problem !== "" || undefined}>
      <summary>{label}</summary>
      <small id={id}>{hint}</small>
      <div className="entry-form" role="group" aria-label={label} aria-describedby={id}>
        {field.type === "table" ? <TableFields field={field} values={(value ?? {}) as Values} onChange={(next) => onChange(Object.keys(next).length ? next : undefined)} /> : <Rows field={field} label={label} value={value} onChange={onChange} />}
      </div>
      {problem && <p className="problem">{problem}</p>}
    </details>
  )
}

function TableFields({ field, values, onChange }: { field: SettingField; values: Values; onChange: (values: Values) => void }) {
  return (
    <>
      {field.fields.map((inner) => (
        <SettingFieldInput key={inner.name} kind={field.name} field={inner} value={values[inner.name]} problem="" onChange={(value) => onChange(withValue(values, inner.name, value))} />
      ))}
    </>
  )
}

type Row = [name: string, values: Values]

function Rows({ field, label, value, onChange }: { field: SettingField; label: string; value: unknown; onChange: (value: unknown) => void }) {
  const a = useAdministrationText()
  const isNamed = field.type === "entries"
  // The rows are kept as they are typed: two of them may have the same or no name for a while.
  const [rows, setRows] = useState<Row[]>(() => (Array.isArray(value) ? value.map((values, at): Row => [String(at), values as Values]) : (Object.entries(value ?? {}) as Row[])))
  const change = (next: Row[]) => {
    setRows(next)
    const filled = isNamed ? next.filter(([name]) => name.trim() !== "").map(([name, values]): Row => [name.trim(), values]) : next
    onChange(!filled.length ? undefined : isNamed ? Object.fromEntries(filled) : filled.map(([, values]) => values))
  }
  const replace = (at: number, row: Row) => change(rows.map((old, index) => (index === at ? row : old)))
  return (
    <>
      {rows.map(([name, values], at) => (
        <fieldset key={at}>
          <legend>{a("rowOf", { field: label, n: at + 1 })}</legend>
          {isNamed && <FieldInput label={a("name")} kind="text" required value={name} onChange={(typed) => replace(at, [String(typed ?? ""), values])} />}
          <TableFields field={field} values={values} onChange={(next) => replace(at, [name, next])} />
          <button type="button" className="quiet small" aria-label={a("removeOf", { name: isNamed && name ? name : a("rowOf", { field: label, n: at + 1 }) })} onClick={() => change(rows.filter((_, index) => index !== at))}>
            {a("remove")}
          </button>
        </fieldset>
      ))}
      <button type="button" className="quiet small" onClick={() => change([...rows, ["", {}]])}>
        <Plus aria-hidden /> {a("addRow")}
      </button>
    </>
  )
}
