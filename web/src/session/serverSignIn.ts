// The way back from the sign-in page of an MCP server: it opens this page in a tab of its own, which tells the others.
const CHANNEL = "toolyard.server-sign-in"

/** Return where the sign-in page of a server leads back to, or null if this page is on another machine than its user. */
export function findReturnAddress({ protocol, hostname, port, origin }: Pick<Location, "protocol" | "hostname" | "port" | "origin">): string | null {
  const isLocal = protocol === "http:" && port !== "" && ["127.0.0.1", "[::1]", "localhost"].includes(hostname)
  return isLocal ? `${origin}/` : null
}

/** Tell the tab in which a sign-in began of the answer in the address, and take it out. Return whether there was one. */
export function passOnSignIn(): boolean {
  const parameters = new URLSearchParams(location.search)
  if (!parameters.has("state") || !(parameters.has("code") || parameters.has("error"))) return false
  const channel = new BroadcastChannel(CHANNEL)
  channel.postMessage(location.href)
  channel.close()
  history.replaceState(null, "", location.pathname)
  return true
}

/** Call `receive` with each address that a sign-in comes back with, until the returned function is called. */
export function followSignIns(receive: (address: string) => void): () => void {
  const channel = new BroadcastChannel(CHANNEL)
  channel.onmessage = (event) => receive(String(event.data))
  return () => channel.close()
}
