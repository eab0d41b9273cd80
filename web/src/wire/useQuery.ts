// The response to a GET, kept up to date: requested again when the path changes, at an interval, and on `refetch`.
import { useCallback, useEffect, useRef, useState } from "react"
import { isNetworkError } from "./describeError"
import { describeError, requestJson } from "./http"

const RECONNECT_MS = 3000

export interface Query<T> {
  /** Null until the first response for this path. */
  data: T | null
  /** Why the last request failed; empty if it did not. The data of an earlier response stays. */
  problem: string
  refetch: () => void
}

/** Request a path and return its latest response. A null path requests nothing. */
export function useQuery<T>(path: string | null, intervalMs = 0): Query<T> {
  const [state, setState] = useState<{ path: string | null; data: T | null; problem: string; unreachable?: boolean }>({ path, data: null, problem: "" })
  const [round, setRound] = useState(0)
  const refetch = useCallback(() => setRound((number) => number + 1), [])
  const pending = useRef(false)
  useEffect(() => {
    pending.current = path !== null
    if (path === null) return
    let cancelled = false // by another path or round, whose response must not be overwritten by this one
    requestJson<T>("GET", path)
      .then(
        (data) => !cancelled && setState({ path, data, problem: "" }),
        (error: unknown) => !cancelled && setState((old) => ({ path, data: old.path === path ? old.data : null, problem: describeError(error), unreachable: isNetworkError(error) })),
      )
      .finally(() => {
        if (!cancelled) pending.current = false
      })
    return () => {
      cancelled = true
    }
  }, [path, round])
  useEffect(() => {
    if (!intervalMs) return
    // A response that takes longer than the interval is awaited: a new round would cancel it, and it would never be shown.
    const timer = setInterval(() => !document.hidden && !pending.current && refetch(), intervalMs)
    return () => clearInterval(timer)
  }, [intervalMs, refetch])
  useEffect(() => {
    // A query that is not polled would show a lost connection for ever.
    if (intervalMs || !state.unreachable) return
    const timer = setTimeout(refetch, RECONNECT_MS)
    return () => clearTimeout(timer)
  }, [intervalMs, state, refetch])
  // In the first render after a change of path the state is still that of the old path, which must not be shown.
  return { data: state.path === path ? state.data : null, problem: state.path === path ? state.problem : "", refetch }
}
