// The chat page: a conversation, or the form that starts a new one.
import { useCallback, useState } from "react"
import type { Attachment } from "../attachments/useAttachments"
import { navigate } from "../app/route"
import { notifyConversationsChanged } from "../state/conversations"
import { sendMessage } from "../state/messages"
import { useTitle } from "../app/title"
import { requestJson } from "../wire/http"
import type { ConversationAnswer, PresetView } from "../wire/types"
import { useTranslate } from "../locales"
import { Composer } from "./Composer"
import { Conversation } from "./Conversation"
import { ModelPicker } from "./ModelPicker"
import { PresetPicker } from "./Presets"
import { Starters } from "./Starters"

const MAX_TITLE_CHARS = 60

export function Chat({ id }: { id: string }) {
  return id ? <Conversation key={id} id={id} /> : <NewConversation />
}

function NewConversation() {
  const t = useTranslate()
  useTitle("") // what waits is counted in it here too
  const [model, setModel] = useState("")
  const [preset, setPreset] = useState<PresetView | null>(null)
  const choosePreset = (chosen: PresetView | null) => {
    setPreset(chosen)
    setModel(chosen?.settings.model ?? "") // it can still be changed beside the preset
  }
  const send = useCallback(async (text: string, attachments: Attachment[] = []) => {
    const title = makeTitle(text || attachments[0]?.name || t("attach.untitled"))
    const settings = { ...preset?.settings, title, model }
    const { conversation } = await requestJson<ConversationAnswer>("POST", "conversations", settings)
    await sendMessage(conversation.id, text, { added: attachments })
    notifyConversationsChanged()
    navigate("chat", conversation.id)
  }, [model, preset, t])
  return (
    <div className="chat chat-new">
      <div className="greeting">
        <h1>{t("chat.greeting")}</h1>
        <p>{t("chat.about")}</p>
        <Composer conversation="" model={model} send={send} />
        <div className="new-settings">
          <ModelPicker model={model} onChoose={async (chosen) => setModel(chosen)} />
          <PresetPicker preset={preset} onChoose={choosePreset} />
        </div>
        <Starters send={send} />
      </div>
    </div>
  )
}

function makeTitle(text: string): string {
  const line = text.trim().split("\n")[0] ?? ""
  return line.length > MAX_TITLE_CHARS ? `${line.slice(0, MAX_TITLE_CHARS - 1).trimEnd()}…` : line
}
