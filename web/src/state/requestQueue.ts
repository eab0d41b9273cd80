// Requests that change a conversation are sent one after the other. Without this a message could overtake the change of
// tools that was made before it, and its run would still use the old tools.
const lastRequests = new Map<string, Promise<unknown>>()

/** Start `work` once every earlier request of this conversation has ended, with success or not. */
export function enqueueRequest<T>(conversation: string, work: () => Promise<T>): Promise<T> {
  const result = (lastRequests.get(conversation) ?? Promise.resolve()).then(work, work)
  const settled = result.then(removeIfLast, removeIfLast)
  lastRequests.set(conversation, settled)
  return result

  function removeIfLast(): void {
    if (lastRequests.get(conversation) === settled) lastRequests.delete(conversation)
  }
}
