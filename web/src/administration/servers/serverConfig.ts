// The configuration of an MCP server as the page sends it. Pure.
import type { FixedSetting, ServerView } from "../../wire/types"

export type ServerConfig = Record<string, unknown>
export type AddableServers = "all" | "url" | "off"

/** Return which servers may be added here: what the server's settings say, else commands only while it has no keys. */
export function findAddable(fixed: FixedSetting[], keyless: boolean): AddableServers {
  const value = fixed.find(({ name }) => name === "add_servers")?.value.replaceAll('"', "")
  if (value === "all" || value === "url" || value === "off") return value
  return keyless ? "all" : "url"
}

/** Return the servers of an mcp.json by name. Throws if the text is no JSON; other mistakes are for the server to tell. */
export function parseMcpJson(text: string): Record<string, ServerConfig> {
  const parsed = JSON.parse(text) as { mcpServers?: Record<string, ServerConfig>; servers?: Record<string, ServerConfig> | (ServerConfig & { name: string })[] } | null
  const servers = parsed?.mcpServers ?? parsed?.servers ?? {}
  const entries = Array.isArray(servers) ? servers.map((server) => [server.name, server] as const) : Object.entries(servers)
  return Object.fromEntries(entries.filter(([, server]) => typeof server === "object" && server !== null && !server["disabled"]))
}

const TRIED_FIELDS = ["command", "args", "env", "cwd", "url", "headers"]

/** Return the part of an entry of an mcp.json that a trial needs. */
export function toTrialConfig(entry: ServerConfig): ServerConfig {
  return Object.fromEntries(TRIED_FIELDS.filter((name) => name in entry).map((name) => [name, entry[name]]))
}

/** Return whether a person may have to sign in: only servers with an address ask for that. */
export function maySignIn(server: ServerView): boolean {
  return server.config["transport"] === "http"
}

/** Return the parameters of the address that a browser shows after a sign-in, or null if they belong to another one. */
export function readSignInAnswer(address: string, state: string): Record<string, string> | null {
  if (!URL.canParse(address.trim())) return null
  const { searchParams } = new URL(address.trim())
  if (searchParams.get("state") !== state) return null
  const known = ["state", "code", "iss", "error", "error_description"]
  return Object.fromEntries(known.flatMap((name) => (searchParams.has(name) ? [[name, searchParams.get(name)!]] : [])))
}
