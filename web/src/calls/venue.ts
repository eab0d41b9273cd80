import type { CallView } from "../state/view"
import type { ToolCard } from "../wire/types"
import type { Translate } from "../locales"

/** Return where a call ran or will run, as a text. */
export function describeVenue(call: CallView, tool: ToolCard | undefined, t: Translate): string {
  if (call.providerRanIt || call.call.ran_at) return [t("venue.provider"), call.call.ran_at].filter(Boolean).join(": ")
  if (call.appTool && !tool) return t("venue.client")
  if (!tool) return ""
  if (tool.venue === "mcp") return `${t("venue.mcp")} ${tool.server_id}`
  return tool.venue === "client" || tool.venue === "provider" || tool.venue === "function" ? t(`venue.${tool.venue}`) : tool.venue
}
