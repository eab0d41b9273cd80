// Who accepted the tools of an MCP server, as the audit log tells. Pure.
import type { AuditEntryView } from "../wire/types"

/** Return the last entry about the acceptance of each tool of a server. The entries come the newest first. */
export function findAcceptances(entries: AuditEntryView[], server: string): Map<string, AuditEntryView> {
  const found = new Map<string, AuditEntryView>()
  for (const entry of entries) {
    if (entry.outcome !== "allowed" || !entry.target.startsWith(`${server}: `)) continue
    for (const tool of entry.target.slice(server.length + 2).split(", ")) if (!found.has(tool)) found.set(tool, entry)
  }
  return found
}
