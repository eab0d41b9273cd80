// The replica that answered last, if the server runs as several processes on one store.
import { useSyncExternalStore } from "react"

const HEADER = "x-toolyard-replica"
const listeners = new Set<() => void>()
let current = ""

/** Note which replica sent a response. A response without the header, such as one of a proxy, changes nothing. */
export function noteReplica(response: Response): void {
  const replica = response.headers.get(HEADER) ?? current
  if (replica === current) return
  current = replica
  for (const listener of listeners) listener()
}

/** Return the id of the replica that answered last; empty if the server is a single process. */
export function useReplica(): string {
  return useSyncExternalStore(subscribe, () => current)
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
