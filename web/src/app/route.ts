// The page that is shown, held in the part of the URL after #: the server serves a single document.
import { useSyncExternalStore } from "react"

/** A conversation; `item` is the message to show and `find` the text that was searched for, both empty for its end. */
export interface ChatRoute {
  page: "chat"
  id: string
  item: string
  find: string
}

export type Route =
  | ChatRoute
  | { page: "inbox"; id: string }
  | { page: "tools"; id: string }
  | { page: "servers"; id: string }
  | { page: "traces"; id: string }
  | { page: "live"; id: string }
  | { page: "usage"; id: string }
  | { page: "overview"; id: string }
  | { page: "audit"; id: string }
  | { page: "administration"; id: string }
  | { page: "shared"; id: string }

export const ROUTE_PAGES = ["chat", "inbox", "tools", "servers", "traces", "live", "usage", "overview", "audit", "administration", "shared"] as const

export function parseRoute(hash: string): Route {
  const [name = "", ...segments] = hash.replace(/^#\/?/, "").split("/")
  const page = ROUTE_PAGES.find((known) => known === name)
  const decoded = segments.map(tryDecode)
  if (page && page !== "chat") return { page, id: decoded.join("/") }
  const [id = "", item = "", find = ""] = page ? decoded : []
  return { page: "chat", id, item, find }
}

/** Decode a segment, or return it unchanged: a URL that was typed or cut off may not be valid. */
function tryDecode(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

export function buildHref(page: Route["page"], id = ""): string {
  return id ? `#/${page}/${encodeURIComponent(id)}` : `#/${page}`
}

/** Return the address of a message in a conversation, with the text that was searched for. */
export function buildMessageHref(conversation: string, item: string, find: string): string {
  return `${buildHref("chat", conversation)}/${encodeURIComponent(item)}/${encodeURIComponent(find)}`
}

export function navigate(page: Route["page"], id = ""): void {
  location.hash = buildHref(page, id)
}

export function useRoute(): Route {
  const hash = useSyncExternalStore(subscribe, () => location.hash)
  return parseRoute(hash)
}

function subscribe(listener: () => void): () => void {
  addEventListener("hashchange", listener)
  return () => removeEventListener("hashchange", listener)
}
