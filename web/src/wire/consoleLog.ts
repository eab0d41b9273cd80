// Tells in the browser's console what becomes of the messages that this tab sends, each line with the correlation id
// under which the server's log and the trace tell the same. What is said, arguments and results are not shown.
import type { Entry } from "./types"

const MAX_FOLLOWED = 64
const followed = new Map<string, Map<string, string>>()

/** Return a new correlation id for a message, and follow what has it. */
export function beginTrace(): string {
  const id = `page_${Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("")}`
  followed.set(id, new Map())
  for (const oldest of followed.keys()) {
    if (followed.size <= MAX_FOLLOWED) break
    followed.delete(oldest)
  }
  console.info(line(id, "Sending a message"))
  return id
}

export function logRefusal(method: string, path: string, status: number, id: string, error: string): void {
  console.warn(line(id, `${method} ${path} was refused (${status}): ${error}`))
  followed.delete(id)
}

/** Log an entry of a run that this tab began; entries of other tabs and of earlier runs are left out. */
export function logEntry(entry: Entry): void {
  const id = entry.correlation_id ?? ""
  const tools = followed.get(id)
  if (!tools) return
  const event = entry.event
  switch (event.type) {
    case "run.started":
      console.info(line(id, `Run started with ${event.model}`))
      return
    case "turn.ended": {
      for (const item of event.items) if (item.type === "call") tools.set(item.id, item.tool)
      const calls = event.items.filter((item) => item.type === "call").length
      if (calls) console.info(line(id, `Model requested ${calls} tool call(s)`))
      return
    }
    case "turn.failed":
      console.warn(line(id, `Model failed | error_type=${event.problem.error_type} | ${event.problem.error}`))
      return
    case "call.started":
      console.info(line(id, `tool_name=${tools.get(event.call_id) ?? ""} | Tool started`))
      return
    case "call.ended": {
      const { tool, outcome, error } = event.result
      if (outcome === "ok") console.info(line(id, `tool_name=${tool} | Tool finished`))
      else console.warn(line(id, `tool_name=${tool} | Tool ended with ${outcome} | error_type=${error?.error_type ?? ""} | ${error?.error ?? ""}`))
      return
    }
    case "run.ended":
      console[event.ending === "failed" ? "warn" : "info"](line(id, `Run ended: ${event.ending}`))
      followed.delete(id)
  }
}

function line(id: string, text: string): string {
  return `correlation_id=${id} | ${text}`
}
