// Keeps a view of one conversation up to date: reads its entries, comes back where it was cut off, tells who looks.
import { Refusal, part, said } from "../wire/http"
import { events } from "../wire/sse"
import { logEntry } from "../wire/consoleLog"
import { fold, type Published } from "./fold"
import { EMPTY, type View } from "./view"

export interface Seen {
  view: View
  /** `ready` once everything that was stored has been read. */
  status: "loading" | "ready" | "away" | "gone"
  problem: string
}

const MOST_AT_ONCE = 400
const PACE_MS = 40
const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 8000
const HIDDEN_MS = 30_000

export class Following {
  #seen: Seen = { view: EMPTY, status: "loading", problem: "" }
  #cursor = ""
  #waiting: Published[] = []
  #timer = 0
  #flushed = 0
  #told = new Set<() => void>()
  #reading: AbortController | null = null
  #hidden = 0

  constructor(readonly conversation: string) {}

  subscribe = (tell: () => void): (() => void) => {
    this.#told.add(tell)
    if (this.#told.size === 1) this.#begin()
    return () => {
      this.#told.delete(tell)
      if (this.#told.size === 0) this.#end()
    }
  }

  snapshot = (): Seen => this.#seen

  #begin(): void {
    document.addEventListener("visibilitychange", this.#onVisibility)
    void this.#read()
  }

  #end(): void {
    document.removeEventListener("visibilitychange", this.#onVisibility)
    clearTimeout(this.#hidden)
    this.#reading?.abort()
    this.#reading = null
  }

  /** A tab that nobody looks at gives its connection back: a browser has few of them for one server. */
  #onVisibility = (): void => {
    clearTimeout(this.#hidden)
    if (document.hidden) {
      this.#hidden = window.setTimeout(() => {
        this.#reading?.abort()
        this.#reading = null
      }, HIDDEN_MS)
    } else if (!this.#reading) void this.#read()
  }

  async #read(): Promise<void> {
    const reading = (this.#reading = new AbortController())
    let pause = FIRST_PAUSE_MS
    while (!reading.signal.aborted) {
      try {
        for await (const batch of events(this.#path, this.#cursor, reading.signal)) {
          pause = FIRST_PAUSE_MS
          if (this.#seen.status === "away") this.#tell({ ...this.#seen, status: "ready" })
          for (const sent of batch) this.#take(sent.id, JSON.parse(sent.data) as Published | { type: "error"; error: string })
        }
      } catch (error) {
        if (reading.signal.aborted) return
        if (error instanceof Refusal && error.status < 500 && error.status !== 429) {
          this.#tell({ ...this.#seen, status: "gone", problem: said(error) })
          return
        }
      }
      if (reading.signal.aborted) return
      this.#tell({ ...this.#seen, status: "away" })
      await new Promise((done) => setTimeout(done, pause * (0.5 + Math.random())))
      pause = Math.min(LONGEST_PAUSE_MS, pause * 2)
    }
  }

  get #path(): string {
    return `conversations/${part(this.conversation)}/events?format=entries`
  }

  #take(id: string, item: Published | { type: "error"; error: string }): void {
    if ("type" in item && item.type === "error") return // the stream ends with it; we come back
    this.#cursor = id
    if ("event" in item) logEntry(item)
    this.#waiting.push(item as Published)
    this.#timer ||= window.setTimeout(this.#flush, Math.max(0, this.#flushed + PACE_MS - performance.now()))
  }

  /** At a pace that the eye can follow, and never so much at once that the page stands still. */
  #flush = (): void => {
    const batch = this.#waiting.splice(0, MOST_AT_ONCE)
    this.#flushed = performance.now()
    this.#timer = this.#waiting.length ? window.setTimeout(this.#flush, PACE_MS) : 0
    this.#tell({ view: fold(this.#seen.view, batch), status: "ready", problem: "" })
  }

  #tell(seen: Seen): void {
    this.#seen = seen
    for (const tell of this.#told) tell()
  }
}

const MOST_KEPT = 8
const kept = new Map<string, Following>()

/** The same one for everybody who looks at a conversation; the last few are kept, so that going back is instant. */
export function following(conversation: string): Following {
  const known = kept.get(conversation) ?? new Following(conversation)
  kept.delete(conversation)
  kept.set(conversation, known)
  for (const old of kept.keys()) {
    if (kept.size <= MOST_KEPT) break
    kept.delete(old)
  }
  return known
}

export function forget(conversation: string): void {
  kept.delete(conversation)
}
