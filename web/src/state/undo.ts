// The last change that can be undone, shown by `UndoBar` for a while.
import { useSyncExternalStore } from "react"

export interface UndoableChange {
  /** What was done, in the user's language. */
  text: string
  undo: () => Promise<void>
}

/** The server keeps a deleted conversation for 30 seconds; the offer ends before that. */
export const UNDO_MS = 25_000

let change: UndoableChange | null = null
let timer = 0
const listeners = new Set<() => void>()

/** Offer to undo a change, in place of the one before. Null offers nothing any longer. */
export function offerUndo(offered: UndoableChange | null): void {
  clearTimeout(timer)
  change = offered
  if (offered) timer = window.setTimeout(() => offerUndo(null), UNDO_MS)
  for (const listener of listeners) listener()
}

export function useUndoableChange(): UndoableChange | null {
  return useSyncExternalStore(subscribe, () => change)
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
