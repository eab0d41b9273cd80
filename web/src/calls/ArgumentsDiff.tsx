import { listFields, type Schema } from "../components/schemaFields"
import { useTranslate } from "../locales"
import { humanize } from "../components/humanize"

type Arguments = Record<string, unknown>

/** What was changed in the arguments of a call, under the labels of its schema: the model's value and the new one. */
export function ArgumentsDiff({ before, after, schema = {} }: { before: Arguments; after: Arguments; schema?: Schema }) {
  const t = useTranslate()
  const titles = new Map(listFields(schema).map((field) => [field.name, field.schema.title]))
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => toText(before[name]) !== toText(after[name]))
  if (!names.length) return null
  return (
    <div className="arguments-diff" role="group" aria-label={t("ask.changes")}>
      {names.map((name) => (
        <p key={name}>
          <span>{titles.get(name) ?? humanize(name)}</span>
          {name in before && <del>{toText(before[name])}</del>}
          {name in after && <ins>{toText(after[name])}</ins>}
        </p>
      ))}
    </div>
  )
}

function toText(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "")
}
