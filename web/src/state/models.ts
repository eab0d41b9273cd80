// The models of this server, requested once and shared by the places that show or choose one.
import { useSyncExternalStore } from "react"
import { requestJson } from "../wire/http"
import type { ModelList } from "../wire/types"

export const OFFLINE_MODEL = "toolyard:offline"
const REFRESH_MS = 60_000

let models: ModelList | null = null
let requestedAt = 0
const listeners = new Set<() => void>()

/** Request the models, again if they were requested before. If that fails, the next subscriber tries again. */
export async function loadModels(): Promise<void> {
  requestedAt = Date.now()
  try {
    models = await requestJson<ModelList>("GET", "models")
  } catch {
    requestedAt = 0
  }
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  if (Date.now() - requestedAt > REFRESH_MS) void loadModels()
  return () => listeners.delete(listener)
}

/** Return the models of this server, or null until it has answered. */
export function useModels(): ModelList | null {
  return useSyncExternalStore(subscribe, () => models)
}
