// Logs the runs that this tab starts to the browser's console. Each line has the correlation id that the server's log and
// the trace have too. Messages, arguments and results are not logged: a console is often pasted into a bug report.
import type { Entry } from "./types"

const MAX_TRACES = 64
/** For each correlation id, the tool of each call: events of a call name only the call. */
const traces = new Map<string, Map<string, string>>()

/** Return a new correlation id for a message, and log the entries that carry it from now on. */
export function beginTrace(): string {
  const id = `page_${Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("")}`
  traces.set(id, new Map())
  for (const oldest of traces.keys()) {
    if (traces.size <= MAX_TRACES) break
    traces.delete(oldest)
  }
  console.info(formatLine(id, "Sending a message"))
  return id
}

export function logHttpError(method: string, path: string, status: number, id: string, error: string): void {
  console.warn(formatLine(id, `${method} ${path} was refused (${status}): ${error}`))
  traces.delete(id)
}

/** Log an entry of a run that this tab started; entries of other tabs and of earlier runs are left out. */
export function logEntry(entry: Entry): void {
  const id = entry.correlation_id ?? ""
  const tools = traces.get(id)
  if (!tools) return
  const event = entry.event
  switch (event.type) {
    case "run.started":
      console.info(formatLine(id, `Run started with ${event.model}`))
      return
    case "turn.ended": {
      for (const item of event.items) if (item.type === "call") tools.set(item.id, item.tool)
      const calls = event.items.filter((item) => item.type === "call").length
      if (calls) console.info(formatLine(id, `Model requested ${calls} tool call(s)`))
      return
    }
    case "calls.requested":
      for (const call of event.calls ?? []) tools.set(call.id, call.tool)
      return
    case "turn.failed":
      console.warn(formatLine(id, `Model failed | error_type=${event.problem.error_type} | ${event.problem.error}`))
      return
    case "call.started":
      console.info(formatLine(id, `tool_name=${tools.get(event.call_id) ?? ""} | Tool started`))
      return
    case "call.ended": {
      const { tool, outcome, error } = event.result
      if (outcome === "ok") console.info(formatLine(id, `tool_name=${tool} | Tool finished`))
      else console.warn(formatLine(id, `tool_name=${tool} | Tool ended with ${outcome} | error_type=${error?.error_type ?? ""} | ${error?.error ?? ""}`))
      return
    }
    case "run.ended":
      console[event.ending === "failed" ? "warn" : "info"](formatLine(id, `Run ended: ${event.ending}`))
      traces.delete(id)
  }
}

function formatLine(id: string, text: string): string {
  return `correlation_id=${id} | ${text}`
}
