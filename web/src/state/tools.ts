// The tools of this server, asked for once and shared: cards need to know where a tool runs and what it takes.
import { useSyncExternalStore } from "react"
import { ask } from "../wire/http"
import type { ToolCard, ToolList } from "../wire/types"

const NONE: Map<string, ToolCard> = new Map()
let known: Map<string, ToolCard> | null = null
let asked = false
const told = new Set<() => void>()

export async function loadTools(): Promise<void> {
  asked = true
  try {
    const answer = await ask<ToolList>("GET", "tools")
    known = new Map(answer.tools.map((tool) => [tool.name, tool]))
  } catch {
    asked = false
    known ??= NONE
  }
  for (const tell of told) tell()
}

function subscribe(tell: () => void): () => void {
  told.add(tell)
  if (!asked) void loadTools()
  return () => told.delete(tell)
}

/** Null until the server has answered. */
export function useToolsIfKnown(): Map<string, ToolCard> | null {
  return useSyncExternalStore(subscribe, () => known)
}

export function useTools(): Map<string, ToolCard> {
  return useToolsIfKnown() ?? NONE
}
