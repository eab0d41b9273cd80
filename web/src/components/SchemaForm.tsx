// A form made from a JSON Schema, or the JSON itself. The server has the last word on whether the values fit.
import { useEffect, useId, useRef, useState } from "react"
import { useSay } from "../locales"
import { defaults, fieldsOf, missing, type Field, type Schema } from "./schemaFields"

type Values = Record<string, unknown>

interface FormProps {
  schema: Schema
  value: Values
  /** Told null while what is written cannot be read. */
  onChange: (value: Values | null) => void
  problems?: Record<string, string>
}

export function SchemaForm({ schema, value, onChange, problems = {} }: FormProps) {
  const say = useSay()
  const known = fieldsOf(schema)
  const fits = known.length > 0 && Object.keys(value).every((name) => known.some((field) => field.name === name))
  const [values, setValues] = useState<Values>(() => ({ ...defaults(schema), ...value }))
  const [text, setText] = useState<string | null>(fits || (known.length === 0 && schema.type === "object" && !Object.keys(value).length) ? null : () => JSON.stringify(value, null, 2))
  const [wrong, setWrong] = useState("")
  const tell = useRef(onChange)
  tell.current = onChange
  useEffect(() => {
    if (text === null) tell.current(missing(schema, values).length ? null : values)
  }, [values, text, schema])
  const refuse = (why: string) => {
    setWrong(why)
    onChange(null)
  }
  const changeText = (written: string) => {
    setText(written)
    try {
      const read: unknown = JSON.parse(written)
      if (!isValues(read)) return refuse(say("common.notObject"))
      setWrong("")
      setValues(read)
      onChange(read)
    } catch (error) {
      refuse(say("common.notJson", { why: error instanceof Error ? error.message : "" }))
    }
  }
  return (
    <div className="schema-form">
      {text === null ? (
        known.map((field) => <FieldRow key={field.name} root={schema} field={field} value={values[field.name]} problem={problems[field.name]} onChange={(one) => setValues((old) => set(old, field.name, one))} />)
      ) : (
        <>
          <textarea className="mono" rows={Math.min(12, text.split("\n").length + 1)} aria-label={say("common.json")} spellCheck={false} value={text} onChange={(event) => changeText(event.target.value)} />
          {wrong && <p className="problem">{wrong}</p>}
        </>
      )}
      {known.length > 0 && (
        <button type="button" className="quiet small" onClick={() => setText(text === null ? JSON.stringify(values, null, 2) : null)} disabled={wrong !== ""}>
          {say(text === null ? "common.json" : "common.form")}
        </button>
      )}
    </div>
  )
}

function isValues(read: unknown): read is Values {
  return typeof read === "object" && read !== null && !Array.isArray(read)
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
  const say = useSay()
  const id = useId()
  const about = field.schema.description
  if (field.kind === "object") {
    const values = (value ?? {}) as Values
    const wanted = field.required || Object.keys(values).length > 0
    const change = (made: Values) => onChange(field.required || Object.keys(made).length ? made : undefined)
    return (
      <fieldset>
        <legend>{field.schema.title ?? field.name}</legend>
        {fieldsOf(field.schema, root, depth).map((inner) => (
          <FieldRow key={inner.name} root={root} field={{ ...inner, required: inner.required && wanted }} depth={depth + 1} value={values[inner.name]} onChange={(one) => change(set(values, inner.name, one))} />
        ))}
      </fieldset>
    )
  }
  return (
    <div className="field" data-kind={field.kind}>
      <label htmlFor={id}>
        {field.schema.title ?? field.name}
        {field.required && <span className="required">{say("common.required")}</span>}
      </label>
      <Input id={id} field={field} value={value} onChange={onChange} describedBy={about ? `${id}-about` : undefined} />
      {about && <small id={`${id}-about`}>{about}</small>}
      {problem && <p className="problem">{problem}</p>}
    </div>
  )
}

function Input({ id, field, value, onChange, describedBy }: { id: string; field: Field; value: unknown; onChange: (value: unknown) => void; describedBy: string | undefined }) {
  const common = { id, "aria-describedby": describedBy, required: field.required }
  const { schema } = field
  switch (field.kind) {
    case "boolean":
      return <input type="checkbox" id={id} aria-describedby={describedBy} checked={value === true} onChange={(event) => onChange(event.target.checked)} />
    case "choice": {
      const at = field.options.findIndex((option) => option.value === value)
      return (
        <select {...common} value={at < 0 ? "" : String(at)} onChange={(event) => onChange(event.target.value === "" ? undefined : field.options[Number(event.target.value)]?.value)}>
          <option value="">–</option>
          {field.options.map((option, index) => (
            <option key={index} value={String(index)}>
              {option.label}
            </option>
          ))}
        </select>
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
      return <textarea {...common} rows={4} maxLength={schema.maxLength} value={words(value)} onChange={(event) => onChange(event.target.value || undefined)} />
    case "json":
      return <JsonInput id={id} value={value} onChange={onChange} />
    default:
      return <input {...common} type={TYPES[schema.format ?? ""] ?? "text"} maxLength={schema.maxLength} value={words(value)} onChange={(event) => onChange(event.target.value || undefined)} />
  }
}

const TYPES: Record<string, string> = { email: "email", uri: "url", date: "date" }

function JsonInput({ id, value, onChange }: { id: string; value: unknown; onChange: (value: unknown) => void }) {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value))
  const [bad, setBad] = useState(false)
  const change = (written: string) => {
    setText(written)
    try {
      onChange(written.trim() === "" ? undefined : JSON.parse(written))
      setBad(false)
    } catch {
      setBad(true)
    }
  }
  return <textarea id={id} className="mono" rows={2} aria-invalid={bad} spellCheck={false} placeholder="JSON" value={text} onChange={(event) => change(event.target.value)} />
}

function words(value: unknown): string {
  return value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value)
}

function set(values: Values, name: string, value: unknown): Values {
  const { [name]: _, ...rest } = values
  return value === undefined ? rest : { ...values, [name]: value }
}
