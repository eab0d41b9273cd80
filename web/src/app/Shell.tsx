// The frame around every page: navigation, conversations and the signed-in user; on a phone they are a menu that slides in.
import { Activity, ChartNoAxesCombined, Coins, Inbox, Languages, LogOut, Menu, MessagesSquare, Moon, Radio, Server, Settings2, Sun, SunMoon, Wrench, X } from "lucide-react"
import { useEffect, useRef, useState, type ReactNode } from "react"
import { ConversationList } from "../chat/ConversationList"
import { isAdmin, useMe } from "../session/caller"
import { buildHref, type Route } from "./route"
import type { Theme } from "./theme"
import { LANGUAGE_NAMES, useLanguage, useTranslate, type Language } from "../locales"
import { PaletteButton } from "../palette/PaletteButton"
import { useWaitingCount } from "../state/openRuns"
import { useWaitingSignals } from "./waitingSignals"
import { useReplica } from "../wire/replica"

const PAGES = [
  { page: "chat", icon: MessagesSquare },
  { page: "inbox", icon: Inbox },
  { page: "tools", icon: Wrench },
  { page: "servers", icon: Server },
  { page: "traces", icon: Activity },
  { page: "live", icon: Radio },
  { page: "usage", icon: Coins },
  { page: "overview", icon: ChartNoAxesCombined },
  { page: "administration", icon: Settings2 },
] as const

interface ShellProps {
  route: Route
  theme: { theme: Theme; setTheme: (theme: Theme) => void }
  setLanguage: (language: Language) => void
  signOut: () => void
  children: ReactNode
}

export function Shell({ route, theme, setLanguage, signOut, children }: ShellProps) {
  const t = useTranslate()
  const [open, setOpen] = useState(false)
  const waiting = useWaitingCount()
  const pages = isAdmin(useMe()) ? PAGES : PAGES.filter(({ page }) => page !== "administration")
  useWaitingSignals()
  useEffect(() => setOpen(false), [route.page, route.id])
  const [opener, closer] = [useRef<HTMLButtonElement>(null), useRef<HTMLButtonElement>(null)]
  useEffect(() => {
    if (!open) return
    const close = () => setOpen(false)
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== "Escape" || document.querySelector("dialog[open]")) return
      event.preventDefault()
      close()
    }
    const wide = matchMedia("(min-width: 761px)") // there it is no menu any more, and nothing may stay inert
    closer.current?.focus()
    addEventListener("keydown", onKey)
    wide.addEventListener("change", close)
    return () => {
      removeEventListener("keydown", onKey)
      wide.removeEventListener("change", close)
      if (document.activeElement === document.body || closer.current?.closest(".side")?.contains(document.activeElement)) opener.current?.focus()
    }
  }, [open])
  return (
    <div className="shell" data-menu={open ? "open" : "closed"}>
      <a className="skip" href="#content" onClick={skipToContent}>
        {t("app.skip")}
      </a>
      <header className="topbar" inert={open}>
        <button className="icon" ref={opener} aria-label={t("nav.menu")} aria-expanded={open} onClick={() => setOpen(true)}>
          <Menu aria-hidden />
        </button>
        <span className="brand">{t("app.name")}</span>
        <span className="grow" />
        {waiting > 0 && (
          <a href={buildHref("inbox")}>
            {t("nav.inbox")} <WaitingCount count={waiting} />
          </a>
        )}
      </header>
      <aside className="side" aria-label={t("nav.side")}>
        <div className="side-head">
          <a className="brand" href={buildHref("chat")}>
            <Logo /> {t("app.name")}
          </a>
          <span className="grow" />
          <PaletteButton />
          <button className="icon only-phone" ref={closer} aria-label={t("nav.close")} onClick={() => setOpen(false)}>
            <X aria-hidden />
          </button>
        </div>
        <nav aria-label={t("nav.label")} className="pages">
          {pages.map(({ page, icon: Icon }) => (
            <a key={page} href={buildHref(page)} aria-current={(route.page === "audit" ? "administration" : route.page) === page ? "page" : undefined}>
              <Icon aria-hidden /> {t(`nav.${page}`)}
              {page === "inbox" && waiting > 0 && <WaitingCount count={waiting} />}
            </a>
          ))}
        </nav>
        <ConversationList current={route.page === "chat" ? route.id : ""} />
        <UserBar theme={theme} setLanguage={setLanguage} signOut={signOut} />
      </aside>
      <div className="scrim" onClick={() => setOpen(false)} />
      <main id="content" tabIndex={-1} inert={open}>
        {children}
      </main>
    </div>
  )
}

function WaitingCount({ count }: { count: number }) {
  return <span className="count">{count}</span>
}

function skipToContent(event: { preventDefault: () => void }): void {
  event.preventDefault() // a link to #content would replace the route, which is held after #
  document.getElementById("content")?.focus()
}

function Logo() {
  return (
    <svg className="mark" viewBox="0 0 32 32" aria-hidden>
      <rect width="32" height="32" rx="9" />
      <path d="M8 11h16M16 11v12" />
    </svg>
  )
}

const NEXT_THEME: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" }
const THEME_ICONS = { system: SunMoon, light: Sun, dark: Moon }

function UserBar({ theme, setLanguage, signOut }: Pick<ShellProps, "theme" | "setLanguage" | "signOut">) {
  const t = useTranslate()
  const me = useMe()
  const language = useLanguage()
  const replica = useReplica()
  const languages = Object.keys(LANGUAGE_NAMES) as Language[]
  const nextLanguage = languages[(languages.indexOf(language) + 1) % languages.length]!
  const Icon = THEME_ICONS[theme.theme]
  return (
    <div className="visitor">
      <div className="visitor-name" title={me.roles.join(", ")}>
        <strong>{me.user}</strong>
        <span>{me.keyless ? t("me.keyless") : [me.tenant, ...me.roles].filter(Boolean).join(" · ")}</span>
        {replica && <span title={t("me.replica")}>{replica}</span>}
      </div>
      <button className="icon" aria-label={`${t("me.theme")}: ${t(`me.theme.${theme.theme}`)}`} title={t(`me.theme.${theme.theme}`)} onClick={() => theme.setTheme(NEXT_THEME[theme.theme])}>
        <Icon aria-hidden />
      </button>
      <button className="icon" aria-label={`${t("me.language")}: ${LANGUAGE_NAMES[nextLanguage]}`} title={LANGUAGE_NAMES[nextLanguage]} onClick={() => setLanguage(nextLanguage)}>
        <Languages aria-hidden />
      </button>
      {!me.keyless && (
        <button className="icon" aria-label={t("me.signOut")} title={t("me.signOut")} onClick={signOut}>
          <LogOut aria-hidden />
        </button>
      )}
    </div>
  )
}
