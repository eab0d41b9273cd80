// Tells the list of conversations that one was made, renamed, deleted or has moved to the front.
const told = new Set<() => void>()

export function conversationsChanged(): void {
  for (const tell of told) tell()
}

export function onConversationsChanged(tell: () => void): () => void {
  told.add(tell)
  return () => told.delete(tell)
}
