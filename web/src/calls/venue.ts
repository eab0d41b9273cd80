import type { CallView } from "../state/view"
import type { ToolCard } from "../wire/types"
import type { Say } from "../locales"

/** Where a call ran, in words. */
export function whereOf(call: CallView, tool: ToolCard | undefined, say: Say): string {
  if (call.providerRanIt || call.call.ran_at) return [say("venue.provider"), call.call.ran_at].filter(Boolean).join(": ")
  if (call.appTool && !tool) return say("venue.client")
  if (!tool) return ""
  if (tool.venue === "mcp") return `${say("venue.mcp")} ${tool.server_id}`
  return tool.venue === "client" || tool.venue === "provider" || tool.venue === "function" ? say(`venue.${tool.venue}`) : tool.venue
}
