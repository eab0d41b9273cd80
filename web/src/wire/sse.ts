// Server-sent events over fetch: unlike EventSource, fetch can send a cursor of ours and tell why it was refused.
import { request } from "./http"

export interface SseEvent {
  id: string
  data: string
}

/**
 * Yield events in batches as they arrive, beginning after the event with the id `after`.
 * The first batch is empty and says that the server has accepted the connection, even if no event follows for a while.
 */
export async function* streamEvents(path: string, after: string, signal: AbortSignal): AsyncGenerator<SseEvent[]> {
  const headers: Record<string, string> = { accept: "text/event-stream" }
  if (after) headers["last-event-id"] = after
  const response = await request("GET", path, undefined, { headers, signal })
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  const parser = new SseParser()
  try {
    yield []
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const batch = parser.push(value)
      if (batch.length) yield batch
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

/** Assembles events from chunks of text that may end anywhere, in the middle of a line too. */
export class SseParser {
  #rest = ""
  #id = ""
  #data: string[] = []

  /** Return the events that this chunk completes. */
  push(chunk: string): SseEvent[] {
    const lines = (this.#rest + chunk).split("\n")
    this.#rest = lines.pop() ?? ""
    const events: SseEvent[] = []
    for (const line of lines) {
      if (line.startsWith("data: ")) this.#data.push(line.slice(6))
      else if (line.startsWith("id: ")) this.#id = line.slice(4)
      else if (line === "" && this.#data.length) {
        // An event without an id keeps the last one: so does the specification, and a cursor must never go back.
        events.push({ id: this.#id, data: this.#data.join("\n") })
        this.#data = []
      }
    }
    return events
  }
}
