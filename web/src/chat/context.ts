// What the parts of a conversation need to know of it.
import { createContext, useContext } from "react"

export const ConversationContext = createContext<{ conversation: string; send: (text: string) => Promise<void> }>({
  conversation: "",
  send: async () => {},
})

export function useConversation() {
  return useContext(ConversationContext)
}
