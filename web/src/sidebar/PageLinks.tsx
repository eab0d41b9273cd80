// All pages but the chat, behind one entry of the sidebar. Whether it is open is kept in this browser.
import { Activity, ChartNoAxesCombined, ChevronDown, ChevronUp, Coins, Inbox, LayoutGrid, Radio, Server, Settings2, Wrench } from "lucide-react"
import { useId, useState } from "react"
import { buildHref, type Route } from "../app/route"
import { useTranslate } from "../locales"
import { isAdmin, useMe } from "../session/caller"

const PAGES = [
  { page: "inbox", icon: Inbox },
  { page: "tools", icon: Wrench },
  { page: "servers", icon: Server },
  { page: "traces", icon: Activity },
  { page: "live", icon: Radio },
  { page: "usage", icon: Coins },
  { page: "overview", icon: ChartNoAxesCombined },
  { page: "administration", icon: Settings2 },
] as const

const STORED_AS = "toolyard.pages"

/** `waiting` is the number of calls that wait for the user: as long as there are any, the inbox is beside the entry. */
export function PageLinks({ current, waiting }: { current: Route["page"]; waiting: number }) {
  const t = useTranslate()
  const id = useId()
  const admin = isAdmin(useMe())
  const [open, setOpen] = useState(() => localStorage.getItem(STORED_AS) === "open")
  const toggle = () => {
    localStorage.setItem(STORED_AS, open ? "closed" : "open")
    setOpen(!open)
  }
  const section = current === "audit" ? "administration" : current
  const pages = PAGES.filter(({ page }) => (page !== "administration" || admin) && !(page === "inbox" && waiting))
  const link = (page: (typeof PAGES)[number]["page"], Icon: typeof Inbox, count = 0) => (
    <a key={page} href={buildHref(page)} aria-current={section === page ? "page" : undefined}>
      <Icon aria-hidden /> {t(`nav.${page}`)}
      {count > 0 && <span className="count">{count}</span>}
    </a>
  )
  return (
    <nav aria-label={t("nav.label")} className="pages">
      {waiting > 0 && link("inbox", Inbox, waiting)}
      <button type="button" aria-expanded={open} aria-controls={id} onClick={toggle}>
        <LayoutGrid aria-hidden /> {t("nav.more")} <span className="grow" />
        {open ? <ChevronDown aria-hidden /> : <ChevronUp aria-hidden />}
      </button>
      <div id={id} className="pages-more" hidden={!open}>
        {pages.map(({ page, icon }) => link(page, icon))}
      </div>
    </nav>
  )
}
