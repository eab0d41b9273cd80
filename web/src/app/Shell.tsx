// The frame around every page: navigation, conversations and the signed-in user; on a phone they are a menu that slides in.
import { Languages, LogOut, Menu, Moon, SquarePen, Sun, SunMoon, X } from "lucide-react"
import { useEffect, useRef, useState, type ReactNode } from "react"
import { ConversationList } from "../sidebar/ConversationList"
import { PageLinks } from "../sidebar/PageLinks"
import { UndoBar } from "../components/UndoBar"
import { useMe } from "../session/caller"
import { buildHref, navigate, type Route } from "./route"
import { TopbarContext } from "./topbar"
import type { Theme } from "./theme"
import { LANGUAGE_NAMES, useLanguage, useTranslate, type Language } from "../locales"
import { PaletteButton } from "../palette/PaletteButton"
import { useCommands } from "../state/commands"
import { useWaitingCount } from "../state/openRuns"
import { useWaitingSignals } from "./waitingSignals"
import { useReplica } from "../wire/replica"

interface ShellProps {
  route: Route
  theme: { theme: Theme; setTheme: (theme: Theme) => void }
  setLanguage: (language: Language) => void
  signOut: () => void
  children: ReactNode
}

export function Shell({ route, theme, setLanguage, signOut, children }: ShellProps) {
  const t = useTranslate()
  const me = useMe()
  const language = useLanguage()
  const [open, setOpen] = useState(false)
  const [topbar, setTopbar] = useState<HTMLElement | null>(null)
  const waiting = useWaitingCount()
  useWaitingSignals()
  useCommands([
    { id: "new", label: t("list.new"), run: () => navigate("chat"), keys: { key: "o", ctrl: true, shift: true } },
    ...(Object.keys(NEXT_THEME) as Theme[]).filter((name) => name !== theme.theme).map((name) => ({ id: `theme-${name}`, label: `${t("me.theme")}: ${t(`me.theme.${name}`)}`, run: () => theme.setTheme(name) })),
    ...(Object.keys(LANGUAGE_NAMES) as Language[]).filter((name) => name !== language).map((name) => ({ id: `language-${name}`, label: `${t("me.language")}: ${LANGUAGE_NAMES[name]}`, run: () => setLanguage(name) })),
    ...(me.keyless ? [] : [{ id: "sign-out", label: t("me.signOut"), run: signOut }]),
  ])
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
        <div className="topbar-page" ref={setTopbar} />
        <span className="brand">{t("app.name")}</span>
        {waiting > 0 && (
          <a href={buildHref("inbox")} aria-label={`${t("nav.inbox")} ${waiting}`}>
            <span className="count">{waiting}</span>
          </a>
        )}
        <a className="icon" href={buildHref("chat")} aria-label={t("list.new")} title={t("list.new")}>
          <SquarePen aria-hidden />
        </a>
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
        <ConversationList current={route.page === "chat" ? route.id : ""} />
        <PageLinks current={route.page} waiting={waiting} />
        <UserBar theme={theme} setLanguage={setLanguage} signOut={signOut} />
      </aside>
      <div className="scrim" onClick={() => setOpen(false)} />
      <main id="content" tabIndex={-1} inert={open}>
        <TopbarContext value={topbar}>{children}</TopbarContext>
      </main>
      <UndoBar />
    </div>
  )
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
