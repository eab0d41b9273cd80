// A stream of server-sent events over fetch: unlike EventSource it can carry a key.
import { request } from "./http"

export interface Sent {
  id: string
  data: string
}

/** The events as they come, and before them an empty batch: the server has answered. */
export async function* events(path: string, after: string, signal: AbortSignal): AsyncGenerator<Sent[]> {
  const headers: Record<string, string> = { accept: "text/event-stream" }
  if (after) headers["last-event-id"] = after
  const answer = await request("GET", path, undefined, { headers, signal })
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
  const lines = new Lines()
  try {
    yield []
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const found = lines.take(value)
      if (found.length) yield found
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

/** Puts events together from pieces that may end anywhere. */
export class Lines {
  #rest = ""
  #id = ""
  #data: string[] = []

  take(piece: string): Sent[] {
    const lines = (this.#rest + piece).split("\n")
    this.#rest = lines.pop() ?? ""
    const found: Sent[] = []
    for (const line of lines) {
      if (line.startsWith("data: ")) this.#data.push(line.slice(6))
      else if (line.startsWith("id: ")) this.#id = line.slice(4)
      else if (line === "" && this.#data.length) {
        found.push({ id: this.#id, data: this.#data.join("\n") })
        this.#data = []
      }
    }
    return found
  }
}
