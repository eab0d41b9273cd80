// Whether the server can be reached, as the last request has shown.
import { useSyncExternalStore } from "react"

let reachable = true
const listeners = new Set<() => void>()

export function noteReachable(isReachable: boolean): void {
  if (isReachable === reachable) return
  reachable = isReachable
  for (const listener of listeners) listener()
}

export function useReachable(): boolean {
  return useSyncExternalStore(subscribe, () => reachable)
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
