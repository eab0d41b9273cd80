import { Activity, Share2, SlidersHorizontal } from "lucide-react"
import { useState } from "react"
import { buildHref } from "../route"
import type { ConversationView } from "../state/view"
import { useTranslate } from "../locales"
import { ShareDialog } from "../sharing/ShareDialog"
import { EnabledTools } from "./EnabledTools"

export function Toolbar({ conversation, view, mine }: { conversation: string; view: ConversationView; mine: boolean }) {
  const t = useTranslate()
  const [tools, setTools] = useState(false)
  const [sharing, setSharing] = useState(false)
  const waiting = view.run?.waiting
  return (
    <header className="toolbar">
      <h1>{view.title || (view.seq > 0 && t("list.untitled"))}</h1>
      {view.run && <span className={waiting ? "pill asking" : "pill running"}>{t(waiting ? "chat.waiting" : "chat.working")}</span>}
      <span className="grow" />
      {mine && (
        <button className="icon" aria-label={t("chat.tools")} title={t("chat.tools")} onClick={() => setTools(true)}>
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
      {tools && <EnabledTools conversation={conversation} onClose={() => setTools(false)} />}
    </header>
  )
}
