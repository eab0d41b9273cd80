import { isLink } from "../parts/addresses"
import type { Citation } from "../wire/types"
import { useSay } from "../words"

/** Where an answer says that it comes from, each place once. */
export function Sources({ citations }: { citations: Citation[] }) {
  const say = useSay()
  const places = new Map(citations.flatMap((one) => (one.url && isLink(one.url) ? [[one.url, one] as const] : [])))
  if (!places.size) return null
  return (
    <ol className="sources" aria-label={say("chat.sources")}>
      {[...places.values()].map((one) => (
        <li key={one.url}>
          <a href={one.url} target="_blank" rel="noopener noreferrer nofollow" title={one.quote}>
            {one.title || one.url}
          </a>
        </li>
      ))}
    </ol>
  )
}
