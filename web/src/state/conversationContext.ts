// What the components inside a conversation need to know of it.
import { createContext, useContext } from "react"
import type { RunFeedback } from "../wire/types"
import type { MessageFiles } from "./messages"

/** What the owner may do with messages while no run is active. Failures are shown by the conversation. */
export interface MessageActions {
  /** Have the user's message with this id answered again, as a new branch, by another model if one is named. */
  retry: (message: string, model?: string) => void
  /**
   * Send a message in place of the one that follows the item `after`, as a new branch. Resolves to whether it was sent.
   */
  resend: (after: string, text: string, files: MessageFiles) => Promise<boolean>
  /** Show the branch that ends with this item. */
  show: (head: string) => void
  remove: (message: string) => void
}

export interface ConversationAccess {
  conversation: string
  /** Null for a user who may only read the conversation. */
  send: ((text: string) => Promise<void>) | null
  /** Write a text into the composer, to be edited and sent. */
  write?: (text: string) => void
  /** Whether the user may approve, deny and answer calls here. */
  mayDecide: boolean
  /** Null for a user who may only read, and while a run is active. */
  actions: MessageActions | null
  /** What the owner thinks of the answers, by the id of their runs; null where it cannot be said. */
  feedback?: Record<string, RunFeedback> | null
  refetchFeedback?: () => void
}

export const ConversationContext = createContext<ConversationAccess>({ conversation: "", send: null, mayDecide: false, actions: null })

export function useConversation(): ConversationAccess {
  return useContext(ConversationContext)
}
