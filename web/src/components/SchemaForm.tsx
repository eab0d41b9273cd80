// A form made from a JSON Schema, with the JSON itself as the alternative. It checks only what the user needs while typing:
// the server validates the values.
import { useEffect, useId, useRef, useState } from "react"
import { Select } from "./Select"
import { useTranslate } from "../locales"
import { isLongText, listDefaults, listFields, listMissing, nameField, type Field, type Schema } from "./schemaFields"

type Values = Record<string, unknown>

interface FormProps {
  schema: Schema
  value: Values
  /** Called with null while the values are incomplete or the JSON is not valid. */
  onChange: (value: Values | null) => void
  problems?: Record<string, string>
}

export function SchemaForm({ schema, value, onChange, problems = {} }: FormProps) {
  const t = useTranslate()
  const fields = listFields(schema)
  // Values that the schema does not name can only be edited as JSON.
  const fits = fields.length > 0 && Object.keys(value).every((name) => fields.some((field) => field.name === name))
  const [values, setValues] = useState<Values>(() => ({ ...listDefaults(schema), ...value }))
  /** The JSON while it is edited as text; null while it is edited as a form. */
  const [text, setText] = useState<string | null>(fits || (fields.length === 0 && schema.type === "object" && !Object.keys(value).length) ? null : () => JSON.stringify(value, null, 2))
  const [problem, setProblem] = useState("")
  // The latest callback, without making it a dependency: callers pass a new function with each render.
  const latestOnChange = useRef(onChange)
  latestOnChange.current = onChange
  useEffect(() => {
    if (text === null) latestOnChange.current(listMissing(schema, values).length ? null : values)
  }, [values, text, schema])
  const reject = (reason: string) => {
    setProblem(reason)
    onChange(null)
  }
  const changeText = (json: string) => {
    setText(json)
    try {
      const parsed: unknown = JSON.parse(json)
      if (!isValues(parsed)) return reject(t("common.notObject"))
      setProblem("")
      setValues(parsed)
      onChange(parsed)
    } catch (error) {
      reject(t("common.notJson", { why: error instanceof Error ? error.message : "" }))
    }
  }
  return (
    <div className="schema-form">
      {text === null ? (
        fields.map((field) => <FieldRow key={field.name} root={schema} field={field} value={values[field.name]} problem={problems[field.name]} onChange={(changed) => setValues((old) => withValue(old, field.name, changed))} />)
      ) : (
        <>
          <textarea className="mono" rows={Math.min(12, text.split("\n").length + 1)} aria-label={t("common.json")} spellCheck={false} value={text} onChange={(event) => changeText(event.target.value)} />
          {problem && <p className="problem">{problem}</p>}
        </>
      )}
      {fields.length > 0 && (
        <button type="button" className="quiet small" onClick={() => setText(text === null ? JSON.stringify(values, null, 2) : null)} disabled={problem !== ""}>
          {t(text === null ? "common.json" : "common.form")}
        </button>
      )}
    </div>
  )
}

function isValues(value: unknown): value is Values {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

interface RowProps {
  root: Schema
  field: Field
  depth?: number
  value: unknown
  problem?: string | undefined
  onChange: (value: unknown) => void
}

function FieldRow({ root, field, depth = 1, value, problem, onChange }: RowProps) {
  const t = useTranslate()
  const id = useId()
  const description = field.schema.description
  if (field.kind === "object") {
    const values = (value ?? {}) as Values
    // The fields of an optional object are required only once one of them has a value; without any it is left out.
    const present = field.required || Object.keys(values).length > 0
    const change = (changed: Values) => onChange(field.required || Object.keys(changed).length ? changed : undefined)
    return (
      <fieldset>
        <legend>{nameField(field)}</legend>
        {listFields(field.schema, root, depth).map((inner) => (
          <FieldRow key={inner.name} root={root} field={{ ...inner, required: inner.required && present }} depth={depth + 1} value={values[inner.name]} onChange={(changed) => change(withValue(values, inner.name, changed))} />
        ))}
      </fieldset>
    )
  }
  return (
    <div className="field" data-kind={field.kind}>
      <label htmlFor={id}>
        {nameField(field)}
        {field.required && <span className="required">{t("common.required")}</span>}
      </label>
      <Input id={id} field={field} value={value} onChange={onChange} describedBy={description ? `${id}-about` : undefined} />
      {description && <small id={`${id}-about`}>{description}</small>}
      {problem && <p className="problem">{problem}</p>}
    </div>
  )
}

function Input({ id, field, value, onChange, describedBy }: { id: string; field: Field; value: unknown; onChange: (value: unknown) => void; describedBy: string | undefined }) {
  const common = { id, "aria-describedby": describedBy, required: field.required }
  const { schema } = field
  // Decided once, so that the field stays the same while its text grows: a field of one line would drop the line breaks.
  const [isLong] = useState(() => field.kind === "text" && typeof value === "string" && isLongText(value))
  switch (field.kind) {
    case "boolean":
      return <input type="checkbox" id={id} aria-describedby={describedBy} checked={value === true} onChange={(event) => onChange(event.target.checked)} />
    case "choice": {
      const selected = field.options.findIndex((option) => option.value === value)
      return (
        <Select
          {...common}
          label={nameField(field)}
          value={selected < 0 ? "" : String(selected)}
          options={[{ value: "", label: "–" }, ...field.options.map(({ label }, index) => ({ value: String(index), label }))]}
          onChange={(index) => onChange(index === "" ? undefined : field.options[Number(index)]?.value)}
        />
      )
    }
    case "number":
    case "integer":
      return (
        <input
          {...common}
          type="number"
          step={field.kind === "integer" ? 1 : "any"}
          min={schema.minimum}
          max={schema.maximum}
          value={typeof value === "number" ? value : ""}
          onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.valueAsNumber)}
        />
      )
    case "lines":
      return (
        <textarea {...common} required={false} rows={3} value={Array.isArray(value) ? value.join("\n") : ""} onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.value.split("\n"))} />
      )
    case "long":
      return <textarea {...common} rows={4} maxLength={schema.maxLength} value={toText(value)} onChange={(event) => onChange(event.target.value || undefined)} />
    case "json":
      return <JsonInput id={id} value={value} onChange={onChange} />
    default:
      if (isLong) return <textarea {...common} rows={4} maxLength={schema.maxLength} value={toText(value)} onChange={(event) => onChange(event.target.value || undefined)} />
      return <input {...common} type={INPUT_TYPES[schema.format ?? ""] ?? "text"} maxLength={schema.maxLength} value={toText(value)} onChange={(event) => onChange(event.target.value || undefined)} />
  }
}

const INPUT_TYPES: Record<string, string> = { email: "email", uri: "url", date: "date" }

function JsonInput({ id, value, onChange }: { id: string; value: unknown; onChange: (value: unknown) => void }) {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value))
  const [invalid, setInvalid] = useState(false)
  const change = (json: string) => {
    setText(json)
    try {
      onChange(json.trim() === "" ? undefined : JSON.parse(json))
      setInvalid(false)
    } catch {
      setInvalid(true)
    }
  }
  return <textarea id={id} className="mono" rows={2} aria-invalid={invalid} spellCheck={false} placeholder="JSON" value={text} onChange={(event) => change(event.target.value)} />
}

function toText(value: unknown): string {
  return value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value)
}

/** Return the values with one of them replaced, or left out if it is undefined. */
function withValue(values: Values, name: string, value: unknown): Values {
  const { [name]: _, ...rest } = values
  return value === undefined ? rest : { ...values, [name]: value }
}
