// What is shown below each answer: nothing, its tokens or its cost. The choice is stored in this browser.
import { useSyncExternalStore } from "react"

export const SPENDING_PREFERENCES = ["off", "tokens", "cost"] as const
export type SpendingPreference = (typeof SPENDING_PREFERENCES)[number]

const KEY = "toolyard.spending"
const listeners = new Set<() => void>()

export function getSpendingPreference(): SpendingPreference {
  const stored = localStorage.getItem(KEY)
  return SPENDING_PREFERENCES.find((known) => known === stored) ?? "off"
}

export function setSpendingPreference(preference: SpendingPreference): void {
  if (preference === "off") localStorage.removeItem(KEY)
  else localStorage.setItem(KEY, preference)
  for (const listener of listeners) listener()
}

export function useSpendingPreference(): SpendingPreference {
  return useSyncExternalStore(subscribe, getSpendingPreference)
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
