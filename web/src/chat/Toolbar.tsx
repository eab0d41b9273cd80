// The title of a conversation and what can be done with it as a whole. On a phone it is in the bar at the top, with a menu.
import { Activity, EllipsisVertical, Search, Share2, SlidersHorizontal } from "lucide-react"
import { Suspense, lazy, useState } from "react"
import { createPortal } from "react-dom"
import { buildHref } from "../app/route"
import { useTopbar } from "../app/topbar"
import { useCommands } from "../state/commands"
import { PopupMenu } from "../components/PopupMenu"
import type { ConversationView } from "../state/view"
import { useTranslate } from "../locales"
import { ShareDialog } from "../sharing/ShareDialog"
import { ModelPicker } from "./settings/ModelPicker"
import { SpentLine } from "./SpentLine"

const SettingsDialog = lazy(() => import("./settings/SettingsDialog"))

interface ToolbarProps {
  conversation: string
  view: ConversationView
  mine: boolean
  /** Whom the run waits for; empty for the user. */
  waitsFor: string
  onFind: () => void
}

export function Toolbar({ conversation, view, mine, waitsFor, onFind }: ToolbarProps) {
  const t = useTranslate()
  const topbar = useTopbar()
  const [dialog, setDialog] = useState<"settings" | "share" | null>(null)
  const waiting = view.run?.waiting
  const title = <h1>{view.title || (view.seq > 0 && t("list.untitled"))}</h1>
  const status = view.run && <span className={waiting ? "pill asking" : "pill running"}>{waiting ? (waitsFor ? t("chat.waitingFor", { who: waitsFor }) : t("chat.waiting")) : t("chat.working")}</span>
  const spent = <SpentLine of="conversation" spending={view.spending} />
  const actions = [
    { label: t("find.title"), icon: <Search aria-hidden />, act: onFind },
    ...(mine ? [{ label: t("settings.title"), icon: <SlidersHorizontal aria-hidden />, act: () => setDialog("settings") }] : []),
    { label: t("share.title"), icon: <Share2 aria-hidden />, act: () => setDialog("share") },
  ]
  useCommands([
    ...(mine ? [{ id: "settings", label: t("settings.title"), run: () => setDialog("settings"), keys: { key: ",", ctrl: true } }] : []),
    { id: "share", label: t("share.title"), run: () => setDialog("share") },
  ])
  const trace = buildHref("traces", `in:${conversation}`)
  const bar = topbar ? (
    createPortal(
      <>
        {title}
        {status}
        <PopupMenu label={t("chat.menu")} icon={<EllipsisVertical aria-hidden />}>
          {actions.map(({ label, icon, act }) => (
            <button key={label} onClick={act}>
              {icon} {label}
            </button>
          ))}
          <a href={trace}>
            <Activity aria-hidden /> {t("chat.trace")}
          </a>
          {spent}
        </PopupMenu>
      </>,
      topbar,
    )
  ) : (
    <header className="toolbar">
      {title}
      {status}
      <span className="grow" />
      {spent}
      {!mine && <ModelPicker model={view.model} onChoose={null} />}
      {actions.map(({ label, icon, act }) => (
        <button key={label} className="icon" aria-label={label} title={label} onClick={act}>
          {icon}
        </button>
      ))}
      <a className="icon" href={trace} aria-label={t("chat.trace")} title={t("chat.trace")}>
        <Activity aria-hidden />
      </a>
    </header>
  )
  return (
    <>
      {bar}
      {dialog === "share" && <ShareDialog conversation={conversation} mine={mine} onClose={() => setDialog(null)} />}
      {dialog === "settings" && (
        <Suspense fallback={null}>
          <SettingsDialog conversation={conversation} onClose={() => setDialog(null)} />
        </Suspense>
      )}
    </>
  )
}
