import { Activity, Share2, SlidersHorizontal } from "lucide-react"
import { useState } from "react"
import { buildHref } from "../app/route"
import { enqueueRequest } from "../state/requestQueue"
import type { ConversationView } from "../state/view"
import { useTranslate } from "../locales"
import { requestJson } from "../wire/http"
import { ShareDialog } from "../sharing/ShareDialog"
import { ModelPicker } from "./ModelPicker"
import { SettingsDialog } from "./SettingsDialog"
import { SpentLine } from "./SpentLine"

interface ToolbarProps {
  conversation: string
  view: ConversationView
  mine: boolean
  /** Whom the run waits for; empty for the user. */
  waitsFor: string
}

export function Toolbar({ conversation, view, mine, waitsFor }: ToolbarProps) {
  const t = useTranslate()
  const [settings, setSettings] = useState(false)
  const [sharing, setSharing] = useState(false)
  const chooseModel = async (model: string) => {
    await enqueueRequest(conversation, () => requestJson("PUT", `conversations/${encodeURIComponent(conversation)}`, { model }))
  }
  const waiting = view.run?.waiting
  return (
    <header className="toolbar">
      <h1>{view.title || (view.seq > 0 && t("list.untitled"))}</h1>
      {view.run && <span className={waiting ? "pill asking" : "pill running"}>{waiting ? (waitsFor ? t("chat.waitingFor", { who: waitsFor }) : t("chat.waiting")) : t("chat.working")}</span>}
      <span className="grow" />
      <SpentLine of="conversation" spending={view.spending} />
      <ModelPicker model={view.model} onChoose={mine ? chooseModel : null} />
      {mine && (
        <button className="icon" aria-label={t("settings.title")} title={t("settings.title")} onClick={() => setSettings(true)}>
          <SlidersHorizontal aria-hidden />
        </button>
      )}
      <button className="icon" aria-label={t("share.title")} title={t("share.title")} onClick={() => setSharing(true)}>
        <Share2 aria-hidden />
      </button>
      <a className="icon" href={buildHref("traces", `in:${conversation}`)} aria-label={t("chat.trace")} title={t("chat.trace")}>
        <Activity aria-hidden />
      </a>
      {sharing && <ShareDialog conversation={conversation} mine={mine} onClose={() => setSharing(false)} />}
      {settings && <SettingsDialog conversation={conversation} onClose={() => setSettings(false)} />}
    </header>
  )
}
