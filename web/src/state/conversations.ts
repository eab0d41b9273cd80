// Notifies the list of conversations that it is out of date: a conversation was created, renamed or deleted, or has moved
// to the front.
const listeners = new Set<() => void>()

export function notifyConversationsChanged(): void {
  for (const listener of listeners) listener()
}

/** Call `listener` at every change. Returns a function that ends the subscription. */
export function onConversationsChanged(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
