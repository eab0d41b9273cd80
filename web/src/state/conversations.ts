// Changes to conversations as the sidebar makes them. The list is told that it is out of date whenever one was created,
// renamed, moved or deleted, or has moved to the front.
import { requestJson } from "../wire/http"
import type { ConversationSummary } from "../wire/types"
import { forgetConversationStore } from "./conversationStore"

const listeners = new Set<() => void>()

export function notifyConversationsChanged(): void {
  for (const listener of listeners) listener()
}

/** Call `listener` at every change. Returns a function that ends the subscription. */
export function onConversationsChanged(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export type Place = "" | "pinned" | "archived"

/** Rename a conversation, or move it to another place of the sidebar. */
export async function changeConversation(id: string, change: { title: string } | { place: Place }): Promise<void> {
  await requestJson("PUT", pathOf(id), change)
  notifyConversationsChanged()
}

/** Delete a conversation; for a while `restoreConversation` brings it back. */
export async function deleteConversation({ id }: ConversationSummary): Promise<void> {
  await requestJson("DELETE", `${pathOf(id)}?undo=true`)
  forgetConversationStore(id)
  notifyConversationsChanged()
}

export async function restoreConversation({ id }: ConversationSummary): Promise<void> {
  await requestJson("POST", `${pathOf(id)}/restore`)
  forgetConversationStore(id) // it may have been opened meanwhile, and was gone
  notifyConversationsChanged()
}

function pathOf(id: string): string {
  return `conversations/${encodeURIComponent(id)}`
}
