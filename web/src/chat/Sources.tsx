// Where an answer comes from, as its provider tells it. What is not an address of the web is shown, never linked.
import { isLink } from "../urls"
import type { Citation } from "../wire/types"
import { useSay } from "../locales"

const MOST = 20

export function Sources({ citations }: { citations: Citation[] }) {
  const say = useSay()
  const named = citations.filter((one) => one.url || one.title)
  const sources = [...new Map(named.map((one) => [one.url || one.title, one])).values()]
  if (sources.length === 0) return null
  return (
    <ol className="sources" aria-label={say("chat.sources")}>
      {sources.slice(0, MOST).map(({ url = "", title = "" }) => (
        <li key={url || title}>
          {isLink(url) ? (
            <a href={url} target="_blank" rel="noopener noreferrer nofollow">
              {title || url}
            </a>
          ) : (
            title || url
          )}
        </li>
      ))}
    </ol>
  )
}
