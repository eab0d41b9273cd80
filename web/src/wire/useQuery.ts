// The answer to a GET, kept up to date: asked again when the path changes, now and then, and when somebody says so.
import { useCallback, useEffect, useRef, useState } from "react"
import { ask, said } from "./http"

export interface Answered<T> {
  data: T | null
  problem: string
  again: () => void
}

export function useAnswer<T>(path: string | null, everyMs = 0): Answered<T> {
  const [state, setState] = useState<{ path: string | null; data: T | null; problem: string }>({ path, data: null, problem: "" })
  const [turn, setTurn] = useState(0)
  const again = useCallback(() => setTurn((now) => now + 1), [])
  const latest = useRef(path)
  latest.current = path
  const pending = useRef(false)
  useEffect(() => {
    pending.current = path !== null
    if (path === null) return
    let left = false
    ask<T>("GET", path)
      .then(
        (data) => !left && setState({ path, data, problem: "" }),
        (error: unknown) => !left && setState((old) => ({ path, data: old.path === path ? old.data : null, problem: said(error) })),
      )
      .finally(() => {
        if (!left) pending.current = false
      })
    return () => {
      left = true
    }
  }, [path, turn])
  useEffect(() => {
    if (!everyMs) return
    // one that takes longer than that is waited for: asked again, it would never be shown
    const timer = setInterval(() => !document.hidden && !pending.current && again(), everyMs)
    return () => clearInterval(timer)
  }, [everyMs, again])
  return { data: state.path === path ? state.data : null, problem: state.path === path ? state.problem : "", again }
}
