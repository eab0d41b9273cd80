// The chat page: a conversation, or the form that starts a new one.
import { useCallback, useState } from "react"
import type { Attachment } from "../attachments/useAttachments"
import { navigate } from "../route"
import { notifyConversationsChanged } from "../state/conversations"
import { sendMessage } from "../state/messages"
import { requestJson } from "../wire/http"
import type { ConversationAnswer } from "../wire/types"
import { useTranslate } from "../locales"
import { Composer } from "./Composer"
import { Conversation } from "./Conversation"
import { ModelPicker } from "./ModelPicker"
import { Starters } from "./Starters"

const MAX_TITLE_CHARS = 60

export function Chat({ id }: { id: string }) {
  return id ? <Conversation key={id} id={id} /> : <NewConversation />
}

function NewConversation() {
  const t = useTranslate()
  const [model, setModel] = useState("")
  const send = useCallback(async (text: string, attachments: Attachment[] = []) => {
    const title = makeTitle(text || attachments[0]?.name || t("attach.untitled"))
    const settings = { title, ...(model ? { model } : {}) }
    const { conversation } = await requestJson<ConversationAnswer>("POST", "conversations", settings)
    await sendMessage(conversation.id, text, attachments)
    notifyConversationsChanged()
    navigate("chat", conversation.id)
  }, [model, t])
  return (
    <div className="chat chat-new">
      <div className="greeting">
        <h1>{t("chat.greeting")}</h1>
        <p>{t("chat.about")}</p>
        <Composer conversation="" model={model} send={send} />
        <ModelPicker model={model} onChoose={async (chosen) => setModel(chosen)} />
        <Starters send={send} />
      </div>
    </div>
  )
}

function makeTitle(text: string): string {
  const line = text.trim().split("\n")[0] ?? ""
  return line.length > MAX_TITLE_CHARS ? `${line.slice(0, MAX_TITLE_CHARS - 1).trimEnd()}…` : line
}
