import { buildHref } from "../app/route"
import type { ServerToolView } from "../wire/types"

export function ToolLine({ tool }: { tool: ServerToolView }) {
  return (
    <a href={buildHref("tools", tool.offered_as || tool.name)}>
      <code>{tool.offered_as || tool.name}</code>
      <small>{tool.state === "unusable" ? tool.difference : tool.description.split("\n")[0]}</small>
    </a>
  )
}
