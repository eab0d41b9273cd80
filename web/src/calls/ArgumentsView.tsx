// The arguments of a call for people: each value under the label of its field; as JSON with one click.
import { useState, type ReactNode } from "react"
import { JsonView } from "../components/JsonView"
import { findFormat, getItemField, listFields, nameField, type Field, type Schema } from "../components/schemaFields"
import { useLanguage, useTranslate, type Language } from "../locales"
import { humanize } from "../components/humanize"

/** A longer text is folded. */
const MAX_SHOWN_CHARS = 280

export function ArgumentsView({ schema, value }: { schema: Schema; value: Record<string, unknown> }) {
  const t = useTranslate()
  const [asJson, setAsJson] = useState(false)
  if (!Object.keys(value).length) return null
  return (
    <div className="arguments-view">
      {asJson ? <JsonView value={value} /> : <Fields schema={schema} root={schema} value={value} depth={0} />}
      <button type="button" className="quiet small" aria-pressed={asJson} onClick={() => setAsJson(!asJson)}>
        {t("common.json")}
      </button>
    </div>
  )
}

function Fields({ schema, root, value, depth }: { schema: Schema; root: Schema; value: Record<string, unknown>; depth: number }) {
  const fields = new Map(listFields(schema, root, depth).map((field) => [field.name, field]))
  // In the order of the schema, which is that of its author; what the schema does not know comes last.
  const names = [...fields.keys(), ...Object.keys(value).filter((name) => !fields.has(name))].filter((name) => value[name] !== undefined)
  return (
    <dl className="arguments">
      {names.map((name) => {
        const field = fields.get(name)
        return (
          <div key={name}>
            <dt>
              {field ? nameField(field) : humanize(name)}
              {field?.schema.description && <small>{field.schema.description}</small>}
            </dt>
            <dd>
              <Value field={field} root={root} value={value[name]} depth={depth} />
            </dd>
          </div>
        )
      })}
    </dl>
  )
}

function Value({ field, root, value, depth }: { field: Field | undefined; root: Schema; value: unknown; depth: number }): ReactNode {
  const t = useTranslate()
  const language = useLanguage()
  const option = field?.options.find((candidate) => candidate.value === value)
  if (option) return option.label
  if (value === null || value === "" || (Array.isArray(value) && !value.length)) return "–"
  if (typeof value === "boolean") return t(value ? "common.yes" : "common.no")
  if (typeof value === "number") return new Intl.NumberFormat(language, { maximumFractionDigits: 10, useGrouping: field?.kind === "number" }).format(value)
  if (typeof value === "string") return <Text text={formatDate(value, field && findFormat(field.schema, value), language) ?? value} />
  if (Array.isArray(value)) {
    const item = field && getItemField(field, root, depth + 1)
    const isList = item?.kind === "object" || value.every((member) => typeof member === "string" || typeof member === "number")
    return isList ? (
      <ul>
        {value.map((member, index) => (
          <li key={index}>
            <Value field={item} root={root} value={member} depth={depth + 1} />
          </li>
        ))}
      </ul>
    ) : (
      <JsonView value={value} />
    )
  }
  if (field?.kind === "object" && typeof value === "object") return <Fields schema={field.schema} root={root} value={value as Record<string, unknown>} depth={depth + 1} />
  return <JsonView value={value} />
}

function Text({ text }: { text: string }) {
  const t = useTranslate()
  const [open, setOpen] = useState(false)
  if (text.length <= MAX_SHOWN_CHARS) return <span className="argument-text">{text}</span>
  return (
    <details className="argument-text" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{open ? t("common.less") : `${text.slice(0, MAX_SHOWN_CHARS).trimEnd()}…`}</summary>
      <p>{text}</p>
    </details>
  )
}

/** Return a date as people write it in their language, or undefined for a text that is none. */
function formatDate(text: string, format: string | undefined, language: Language): string | undefined {
  if (!format) return undefined
  const at = new Date(text)
  if (Number.isNaN(at.getTime())) return undefined
  // A date without a time is the same day everywhere: it must not move with the time zone of the browser.
  const style: Intl.DateTimeFormatOptions = format === "date" ? { dateStyle: "full", timeZone: "UTC" } : { dateStyle: "full", timeStyle: "short" }
  return new Intl.DateTimeFormat(language, style).format(at)
}
