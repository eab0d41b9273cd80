// The sources of an answer, as its provider cites them. A source that is not a web URL is shown as text, never as a link.
import { useId } from "react"
import { isWebLink } from "../../components/urls"
import type { Citation } from "../../wire/types"
import { useTranslate } from "../../locales"

const MAX_SOURCES = 20

export function Sources({ citations }: { citations: Citation[] }) {
  const t = useTranslate()
  const id = useId()
  const named = citations.filter((citation) => citation.url || citation.title)
  const sources = [...new Map(named.map((citation) => [citation.url || citation.title, citation])).values()]
  if (sources.length === 0) return null
  return (
    <section className="sources">
      <h2 id={id}>{t("chat.sources")}</h2>
      <ol aria-labelledby={id}>
        {sources.slice(0, MAX_SOURCES).map(({ url = "", title = "" }) => (
          <li key={url || title}>
            {isWebLink(url) ? (
              <a href={url} target="_blank" rel="noopener noreferrer nofollow">
                {title || url}
              </a>
            ) : (
              title || url
            )}
          </li>
        ))}
      </ol>
    </section>
  )
}
