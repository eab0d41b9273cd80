// What the parts of a conversation need to know of it.
import { createContext, useContext } from "react"

export interface Around {
  conversation: string
  /** Null for one who only reads along. */
  send: ((text: string) => Promise<void>) | null
  /** Whether the visitor may decide and answer calls here. */
  decides: boolean
}

export const ConversationContext = createContext<Around>({ conversation: "", send: null, decides: false })

export function useConversation() {
  return useContext(ConversationContext)
}
