// What the components inside a conversation need to know of it.
import { createContext, useContext } from "react"

export interface ConversationAccess {
  conversation: string
  /** Null for a user who may only read the conversation. */
  send: ((text: string) => Promise<void>) | null
  /** Whether the user may approve, deny and answer calls here. */
  mayDecide: boolean
}

export const ConversationContext = createContext<ConversationAccess>({ conversation: "", send: null, mayDecide: false })

export function useConversation(): ConversationAccess {
  return useContext(ConversationContext)
}
