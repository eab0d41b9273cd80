// MCP servers as `/servers` tells of them.
export interface ServerLine {
  id: string
  name: string
  config: Record<string, unknown>
  status: string
  started_at: string | null
  error_message: string | null
  process_id: number | null
  protocol: string
  restarts: number
  tools: number
  quarantined: number
  log?: string[]
}

export interface ServerList {
  servers: ServerLine[]
  count: number
}

export interface ServerTool {
  name: string
  description: string
  offered_as: string
  state: string
  difference: string
}

export interface ServerTools {
  tools: ServerTool[]
}
