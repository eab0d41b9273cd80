// The chat page: a conversation, or the form that starts a new one.
import { SlidersHorizontal } from "lucide-react"
import { Suspense, lazy, useCallback, useState } from "react"
import type { Attachment } from "../attachments/useAttachments"
import { navigate, type ChatRoute } from "../app/route"
import { useCommands } from "../state/commands"
import { notifyConversationsChanged } from "../state/conversations"
import { sendMessage } from "../state/messages"
import { useTitle } from "../app/title"
import { requestJson } from "../wire/http"
import type { ConversationAnswer } from "../wire/types"
import { useTranslate } from "../locales"
import { Composer } from "./Composer"
import { Conversation } from "./Conversation"
import { ModelPicker } from "./settings/ModelPicker"
import { SettingChips, useNewChips } from "./settings/SettingChips"
import { Starters } from "./Starters"
import { NO_SETTINGS, applyModel, toNewConversation } from "./settings/newSettings"

const NewChatSettings = lazy(() => import("./settings/NewChatSettings"))

const MAX_TITLE_CHARS = 60

export function Chat({ id, item, find }: Omit<ChatRoute, "page">) {
  return id ? <Conversation key={id} id={id} item={item} find={find} /> : <NewConversation />
}

function NewConversation() {
  const t = useTranslate()
  useTitle("") // what waits is counted in it here too
  const [settings, setSettings] = useState(NO_SETTINGS)
  const [open, setOpen] = useState(false)
  const chips = useNewChips(settings, setSettings)
  const show = () => setOpen(true)
  useCommands([{ id: "settings", label: t("settings.new"), run: show, keys: { key: ",", ctrl: true } }])
  const send = useCallback(
    async (text: string, attachments: Attachment[] = []) => {
      const title = makeTitle(text || attachments[0]?.name || t("attach.untitled"))
      const { conversation } = await requestJson<ConversationAnswer>("POST", "conversations", { ...toNewConversation(settings), title, auto_title: true })
      await sendMessage(conversation.id, text, { added: attachments })
      notifyConversationsChanged()
      navigate("chat", conversation.id)
    },
    [settings, t],
  )
  return (
    <div className="chat chat-new">
      <div className="greeting">
        <h1>{t("chat.greeting")}</h1>
        <p>{t("chat.about")}</p>
        <Composer
          conversation=""
          model={settings.model}
          send={send}
          chips={<SettingChips chips={chips} onOpen={show} />}
          controls={
            <>
              <ModelPicker model={settings.model} onChoose={async (model) => setSettings(applyModel(settings, model))} />
              <button type="button" className="icon" aria-label={t("settings.new")} title={t("settings.new")} onClick={show}>
                <SlidersHorizontal aria-hidden />
              </button>
            </>
          }
        />
        {open && (
          <Suspense fallback={null}>
            <NewChatSettings settings={settings} onChange={setSettings} onClose={() => setOpen(false)} />
          </Suspense>
        )}
        <Starters send={send} />
      </div>
    </div>
  )
}

function makeTitle(text: string): string {
  const line = text.trim().split("\n")[0] ?? ""
  return line.length > MAX_TITLE_CHARS ? `${line.slice(0, MAX_TITLE_CHARS - 1).trimEnd()}…` : line
}
