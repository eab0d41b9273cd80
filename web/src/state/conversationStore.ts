// Keeps the view of one conversation up to date: reads its event stream, reconnects where it was cut off, and notifies
// the components that show it.
import { logEntry } from "../wire/consoleLog"
import { HttpError, describeError } from "../wire/http"
import { streamEvents } from "../wire/sse"
import { fold, type StreamItem } from "./fold"
import { EMPTY_VIEW, type ConversationView } from "./view"

export interface ConversationSnapshot {
  view: ConversationView
  /** `ready` once the first entries are in the view, `away` while the connection is lost, `gone` if the server refuses. */
  status: "loading" | "ready" | "away" | "gone"
  problem: string
}

/** What the server sends last before it closes a stream that failed. */
interface StreamError {
  type: "error"
  error: string
}

const MAX_BATCH = 400
const FLUSH_INTERVAL_MS = 40
const MIN_RETRY_MS = 250
const MAX_RETRY_MS = 8000
const HIDDEN_GRACE_MS = 30_000

/** A store for `useSyncExternalStore`. It holds a connection while it has subscribers. */
export class ConversationStore {
  #snapshot: ConversationSnapshot = { view: EMPTY_VIEW, status: "loading", problem: "" }
  /** The id of the last item received, with which the server resumes the stream. It outlives a connection. */
  #cursor = ""
  /** Items that were received but are not in the view yet. */
  #pending: StreamItem[] = []
  #flushTimer = 0
  #flushedAt = 0
  #listeners = new Set<() => void>()
  /** Aborts the connection; null while there is none. */
  #connection: AbortController | null = null
  #hiddenTimer = 0

  constructor(readonly conversation: string) {}

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    if (this.#listeners.size === 1) this.#open()
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.#close()
    }
  }

  getSnapshot = (): ConversationSnapshot => this.#snapshot

  #open(): void {
    document.addEventListener("visibilitychange", this.#onVisibilityChange)
    void this.#follow()
  }

  #close(): void {
    document.removeEventListener("visibilitychange", this.#onVisibilityChange)
    clearTimeout(this.#hiddenTimer)
    this.#disconnect()
  }

  #disconnect(): void {
    this.#connection?.abort()
    this.#connection = null
  }

  /** Disconnect a tab that has been hidden for a while: over HTTP/1.1 a browser has six connections for one server. */
  #onVisibilityChange = (): void => {
    clearTimeout(this.#hiddenTimer)
    if (document.hidden) this.#hiddenTimer = window.setTimeout(() => this.#disconnect(), HIDDEN_GRACE_MS)
    else if (!this.#connection) void this.#follow()
  }

  /** Read the stream until it is disconnected from here, reconnecting after the last item received. */
  async #follow(): Promise<void> {
    // Each call has a controller of its own: after a quick disconnect and reconnect two calls overlap, and the older one
    // must see that it was aborted.
    const connection = (this.#connection = new AbortController())
    let retryMs = MIN_RETRY_MS
    while (!connection.signal.aborted) {
      try {
        for await (const batch of streamEvents(this.#path, this.#cursor, connection.signal)) {
          retryMs = MIN_RETRY_MS
          if (this.#snapshot.status === "away") this.#publish({ ...this.#snapshot, status: "ready" })
          for (const event of batch) this.#receive(event.id, JSON.parse(event.data) as StreamItem | StreamError)
        }
      } catch (error) {
        if (connection.signal.aborted) return
        // The server is there and says no: trying again would not help. Rate limits and server errors pass.
        if (error instanceof HttpError && error.status < 500 && error.status !== 429) {
          this.#publish({ ...this.#snapshot, status: "gone", problem: describeError(error) })
          return
        }
      }
      if (connection.signal.aborted) return
      this.#publish({ ...this.#snapshot, status: "away" })
      // Random, so that the tabs that a restart cut off do not all come back in the same moment.
      await new Promise((resolve) => setTimeout(resolve, retryMs * (0.5 + Math.random())))
      retryMs = Math.min(MAX_RETRY_MS, retryMs * 2)
    }
  }

  get #path(): string {
    return `conversations/${encodeURIComponent(this.conversation)}/events?format=entries`
  }

  #receive(id: string, item: StreamItem | StreamError): void {
    // An error is no item of the conversation: the cursor stays, and the next connection begins after the last item.
    if ("type" in item && item.type === "error") return
    this.#cursor = id
    if ("event" in item) logEntry(item)
    this.#pending.push(item as StreamItem)
    this.#flushTimer ||= window.setTimeout(this.#flush, Math.max(0, this.#flushedAt + FLUSH_INTERVAL_MS - performance.now()))
  }

  /**
   * Fold pending items into the view. Every fold renders the page, so items are collected for a frame or two instead of
   * rendering each piece of text, and a long history is folded in batches, so that the page never freezes.
   */
  #flush = (): void => {
    const batch = this.#pending.splice(0, MAX_BATCH)
    this.#flushedAt = performance.now()
    this.#flushTimer = this.#pending.length ? window.setTimeout(this.#flush, FLUSH_INTERVAL_MS) : 0
    this.#publish({ view: fold(this.#snapshot.view, batch), status: "ready", problem: "" })
  }

  #publish(snapshot: ConversationSnapshot): void {
    this.#snapshot = snapshot
    for (const listener of this.#listeners) listener()
  }
}

const MAX_STORES = 8
/** The stores used last, the newest at the end: a Map iterates in the order of insertion. */
const stores = new Map<string, ConversationStore>()

/**
 * Return the store of a conversation, the same for every component that shows it. The last few are kept after they are
 * closed, with view and cursor, so that going back shows the conversation at once and fetches only what is new.
 */
export function getConversationStore(conversation: string): ConversationStore {
  const store = stores.get(conversation) ?? new ConversationStore(conversation)
  stores.delete(conversation)
  stores.set(conversation, store)
  for (const oldest of stores.keys()) {
    if (stores.size <= MAX_STORES) break
    stores.delete(oldest)
  }
  return store
}

export function forgetConversationStore(conversation: string): void {
  stores.delete(conversation)
}
