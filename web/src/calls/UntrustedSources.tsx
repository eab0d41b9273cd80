// What strangers may have written before a call, with the passage, and which arguments stand in it word for word.
import { ShieldAlert } from "lucide-react"
import { useTranslate } from "../locales"
import type { UntrustedSource } from "../wire/types"

export function UntrustedSources({ sources }: { sources: UntrustedSource[] }) {
  const t = useTranslate()
  return (
    <div className="untrusted">
      <p>
        <ShieldAlert aria-hidden /> <strong>{t("untrusted.title")}</strong>
      </p>
      <ul>
        {sources.map((source) => (
          <li key={source.item_id + source.name}>
            {source.name}
            {source.copied?.length ? <> · {t("untrusted.copied", { arguments: source.copied.map(nameArgument).join(", ") })}</> : null}
            {source.passage && <blockquote>{source.passage}</blockquote>}
          </li>
        ))}
      </ul>
    </div>
  )
}

/** Return a JSON pointer as a person reads it: `/items/0/name` is items.0.name. */
function nameArgument(pointer: string): string {
  return pointer.slice(1).replaceAll("/", ".").replaceAll("~1", "/").replaceAll("~0", "~")
}
