import { useTranslate } from "../locales"

type Arguments = Record<string, unknown>

/** What was changed in the arguments of a call: for each of them the model's value and the new one. */
export function ArgumentsDiff({ before, after }: { before: Arguments; after: Arguments }) {
  const t = useTranslate()
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => toText(before[name]) !== toText(after[name]))
  if (!names.length) return null
  return (
    <div className="arguments-diff" role="group" aria-label={t("ask.changes")}>
      {names.map((name) => (
        <p key={name}>
          <code>{name}</code>
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
