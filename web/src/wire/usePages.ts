// A list that comes in pages. The first page is kept up to date until the user asks for the next one.
import { useEffect, useState } from "react"
import { requestJson } from "./http"
import { useProblem } from "./useProblem"
import { useQuery } from "./useQuery"

/** A page of a list: `next` is the `after` of the next page, or null after the last one. */
interface Page {
  next: string | null
}

export interface Pages<T> {
  /** The pages that were loaded; null until the first response for this path. */
  pages: T[] | null
  problem: string
  /** Loads the next page; null if there is none. */
  loadMore: (() => void) | null
}

/** Request the first page of a path, which has a query already, and the next ones on demand. */
export function usePages<T extends Page>(path: string, intervalMs: number): Pages<T> {
  // The first page is kept with the others: one that is polled meanwhile would leave a gap before the second.
  const [loaded, setLoaded] = useState<{ path: string; pages: T[] } | null>(null)
  const { data, problem } = useQuery<T>(path, loaded ? 0 : intervalMs)
  const [failed, fail, clear] = useProblem()
  useEffect(() => setLoaded(null), [path])
  const pages = loaded?.path === path ? loaded.pages : data && [data]
  const next = pages?.at(-1)?.next
  const loadMore = () => {
    clear()
    requestJson<T>("GET", `${path}&after=${encodeURIComponent(next ?? "")}`).then((page) => setLoaded({ path, pages: [...(pages ?? []), page] }), fail)
  }
  return { pages, problem: problem || failed, loadMore: next ? loadMore : null }
}
