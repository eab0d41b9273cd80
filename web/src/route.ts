// Where the visitor is: the part of the address after #. The server knows one page only.
import { useSyncExternalStore } from "react"

export type Route =
  | { page: "chat"; id: string }
  | { page: "tools"; id: string }
  | { page: "servers"; id: string }
  | { page: "traces"; id: string }
  | { page: "live"; id: string }
  | { page: "overview"; id: string }

const PAGES = ["chat", "tools", "servers", "traces", "live", "overview"] as const

export function parseRoute(hash: string): Route {
  const [page = "", ...rest] = hash.replace(/^#\/?/, "").split("/")
  const known = PAGES.find((one) => one === page)
  return { page: known ?? "chat", id: known ? rest.map(decoded).join("/") : "" }
}

/** An address that somebody typed or cut may be no good: then it is taken as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

export function hrefOf(page: Route["page"], id = ""): string {
  return id ? `#/${page}/${encodeURIComponent(id)}` : `#/${page}`
}

export function go(page: Route["page"], id = ""): void {
  location.hash = hrefOf(page, id)
}

export function useRoute(): Route {
  const hash = useSyncExternalStore(subscribe, () => location.hash)
  return parseRoute(hash)
}

function subscribe(tell: () => void): () => void {
  addEventListener("hashchange", tell)
  return () => removeEventListener("hashchange", tell)
}
