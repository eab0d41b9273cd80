import { useCallback, useEffect, useState } from "react"
import { describeError, isNetworkError } from "./describeError"
import { noteReachable, useReachable } from "./reachability"

/**
 * Return why the last action failed, a function that sets it from an error, and one that clears it. A lost connection is not
 * shown any longer once the server can be reached again.
 */
export function useProblem(): [problem: string, fail: (error: unknown) => void, clear: () => void] {
  const [problem, setProblem] = useState({ text: "", ofNetwork: false })
  const reachable = useReachable()
  const clear = useCallback(() => setProblem({ text: "", ofNetwork: false }), [])
  const fail = useCallback((error: unknown) => {
    const ofNetwork = isNetworkError(error)
    if (ofNetwork) noteReachable(false)
    setProblem({ text: describeError(error), ofNetwork })
  }, [])
  useEffect(() => {
    if (reachable && problem.ofNetwork) clear()
  }, [reachable, problem, clear])
  return [problem.text, fail, clear]
}
