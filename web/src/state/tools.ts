// The tools of this server, requested once and shared: every call card needs to know where its tool runs and its schema.
import { useSyncExternalStore } from "react"
import { nameTool } from "../components/humanize"
import { requestJson } from "../wire/http"
import type { ToolCard, ToolList } from "../wire/types"

const NO_TOOLS: Map<string, ToolCard> = new Map()
let tools: Map<string, ToolCard> | null = null
let requested = false
const listeners = new Set<() => void>()

/** Request the tools, again if they were requested before. If that fails, the next subscriber tries again. */
export async function loadTools(): Promise<void> {
  requested = true
  try {
    const answer = await requestJson<ToolList>("GET", "tools")
    tools = new Map(answer.tools.map((tool) => [tool.name, tool]))
  } catch {
    requested = false
    tools ??= NO_TOOLS
  }
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  if (!requested) void loadTools()
  return () => listeners.delete(listener)
}

/** Return the tools by name, or null until the server has answered. */
export function useToolsOrNull(): Map<string, ToolCard> | null {
  return useSyncExternalStore(subscribe, () => tools)
}

/** Return the tools by name, none until the server has answered. */
export function useTools(): Map<string, ToolCard> {
  return useToolsOrNull() ?? NO_TOOLS
}

/** Return what people read in place of the name of a tool. */
export function useToolName(tool: string): string {
  return nameTool(tool, useTools().get(tool)?.title)
}
