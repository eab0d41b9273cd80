// The page as a whole: who is there, in which language and colours, and which page they are on.
import { Suspense, lazy, useCallback, useEffect, useLayoutEffect, useMemo, useState } from "react"
import { Chat } from "./chat/Chat"
import { Shell } from "./Shell"
import { SignIn } from "./SignIn"
import { CallerContext } from "./caller"
import { Boundary } from "./components/ErrorBoundary"
import { useTheme } from "./theme"
import { Refusal, ask, visitor } from "./wire/http"
import type { Me } from "./wire/types"
import { useRoute } from "./route"
import { Titled } from "./title"
import { Words, preferred, sayIn, useSay, type Language } from "./locales"

const Tools = lazy(() => import("./tools/Tools"))
const Servers = lazy(() => import("./tools/Servers"))
const Traces = lazy(() => import("./traces/Traces"))
const Live = lazy(() => import("./traces/Live"))
const Overview = lazy(() => import("./overview/Overview"))

const FIRST_PAUSE_MS = 1000

export function App() {
  const [language, setLanguage] = useState<Language>(preferred)
  const theme = useTheme()
  const words = useMemo(() => ({ language, say: sayIn(language) }), [language])
  visitor.language = language
  useLayoutEffect(() => {
    document.documentElement.lang = language === "zh" ? "zh-Hans" : "en"
    localStorage.setItem("toolyard.language", language)
  }, [language])
  return (
    <Words value={words}>
      <Inside theme={theme} setLanguage={setLanguage} />
    </Words>
  )
}

function Inside({ theme, setLanguage }: { theme: ReturnType<typeof useTheme>; setLanguage: (language: Language) => void }) {
  const [me, setMe] = useState<Me | "unknown" | null>(null)
  const [offline, setOffline] = useState(false)
  const route = useRoute()
  const say = useSay()
  const look = useCallback(async () => {
    try {
      setMe(await ask<Me>("GET", "me"))
      setOffline(false)
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) setMe("unknown")
      else {
        setOffline(true)
        setTimeout(() => void look(), FIRST_PAUSE_MS)
      }
    }
  }, [])
  useEffect(() => {
    visitor.onUnknown = () => setMe("unknown")
    void look()
  }, [look])
  if (me === "unknown") return <SignIn onSignedIn={look} />
  if (me === null) return <Waiting offline={offline} />
  const signOut = () => {
    visitor.key = ""
    location.reload() // nothing of one visitor is left for the next
  }
  return (
    <CallerContext value={me}>
      <Shell route={route} theme={theme} setLanguage={setLanguage} signOut={signOut}>
        {route.page !== "chat" && <Titled title={say(`nav.${route.page}`)} />}
        <Boundary place={`${route.page}/${route.id}`} words={say("common.broken")}>
          <Suspense fallback={<Waiting offline={false} />}>
            {route.page === "chat" && <Chat id={route.id} />}
            {route.page === "tools" && <Tools name={route.id} />}
            {route.page === "servers" && <Servers id={route.id} />}
            {route.page === "traces" && <Traces id={route.id} />}
            {route.page === "live" && <Live />}
            {route.page === "overview" && <Overview />}
          </Suspense>
        </Boundary>
      </Shell>
    </CallerContext>
  )
}

function Waiting({ offline }: { offline: boolean }) {
  const say = sayIn(preferred())
  return (
    <div className="waiting" role="status">
      {offline ? say("app.offline") : say("app.loading")}
    </div>
  )
}
