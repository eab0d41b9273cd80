// A conversation, or the place where a new one begins.
import { useCallback } from "react"
import { go } from "../route"
import { conversationsChanged } from "../state/conversations"
import { sendMessage } from "../state/messages"
import { ask } from "../wire/http"
import type { ConversationAnswer } from "../wire/types"
import { useSay } from "../locales"
import { Composer } from "./Composer"
import { Conversation } from "./Conversation"
import { Starters } from "./Starters"

const LONGEST_TITLE = 60

export function Chat({ id }: { id: string }) {
  return id ? <Conversation key={id} id={id} /> : <NewConversation />
}

function NewConversation() {
  const say = useSay()
  const send = useCallback(async (text: string) => {
    const made = await ask<ConversationAnswer>("POST", "conversations", { title: titleOf(text) })
    await sendMessage(made.conversation.id, text)
    conversationsChanged()
    go("chat", made.conversation.id)
  }, [])
  return (
    <div className="chat chat-new">
      <div className="greeting">
        <h1>{say("chat.greeting")}</h1>
        <p>{say("chat.about")}</p>
        <Composer send={send} />
        <Starters send={send} />
      </div>
    </div>
  )
}

function titleOf(text: string): string {
  const line = text.trim().split("\n")[0] ?? ""
  return line.length > LONGEST_TITLE ? `${line.slice(0, LONGEST_TITLE - 1).trimEnd()}…` : line
}
