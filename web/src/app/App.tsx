// The root component: the language, the theme, who is signed in, and the page that is shown.
import { Suspense, lazy, useCallback, useEffect, useLayoutEffect, useMemo, useState } from "react"
import { Chat } from "../chat/Chat"
import { Shell } from "./Shell"
import { SignIn } from "../session/SignIn"
import { CallerContext } from "../session/caller"
import { ErrorBoundary } from "../components/ErrorBoundary"
import { clearDrafts } from "../state/drafts"
import { useTheme } from "./theme"
import { HttpError, requestJson, session } from "../wire/http"
import type { Me } from "../wire/types"
import { useRoute } from "./route"
import { DocumentTitle } from "./title"
import { LocaleContext, getPreferredLanguage, createTranslate, useTranslate, type Language } from "../locales"

const Inbox = lazy(() => import("../traces/Inbox"))
const Tools = lazy(() => import("../tools/Tools"))
const Servers = lazy(() => import("../tools/Servers"))
const Traces = lazy(() => import("../traces/Traces"))
const Live = lazy(() => import("../traces/Live"))
const SharedPage = lazy(() => import("../sharing/SharedPage"))
const Usage = lazy(() => import("../usage/Usage"))
const Overview = lazy(() => import("../overview/Overview"))
const Audit = lazy(() => import("../audit/Audit"))
const Administration = lazy(() => import("../administration/Administration"))

const RETRY_MS = 1000

export function App() {
  const [language, setLanguage] = useState<Language>(getPreferredLanguage)
  const theme = useTheme()
  const locale = useMemo(() => ({ language, translate: createTranslate(language) }), [language])
  session.language = language
  useLayoutEffect(() => {
    document.documentElement.lang = language === "zh" ? "zh-Hans" : language
    localStorage.setItem("toolyard.language", language)
  }, [language])
  return (
    <LocaleContext value={locale}>
      <AppContent theme={theme} setLanguage={setLanguage} />
    </LocaleContext>
  )
}

function AppContent({ theme, setLanguage }: { theme: ReturnType<typeof useTheme>; setLanguage: (language: Language) => void }) {
  const [me, setMe] = useState<Me | "signed out" | null>(null)
  const [offline, setOffline] = useState(false)
  const route = useRoute()
  const t = useTranslate()
  const loadMe = useCallback(async () => {
    try {
      setMe(await requestJson<Me>("GET", "me"))
      setOffline(false)
    } catch (error) {
      if (error instanceof HttpError && error.status === 401) setMe("signed out")
      else {
        setOffline(true)
        setTimeout(() => void loadMe(), RETRY_MS)
      }
    }
  }, [])
  useEffect(() => {
    session.onUnauthorized = () => setMe("signed out")
    void loadMe()
  }, [loadMe])
  if (me === "signed out") return <SignIn onSignedIn={loadMe} />
  if (me === null) return <LoadingScreen offline={offline} />
  const signOut = () => {
    clearDrafts()
    // The page is loaded again to drop the stores and caches of this user before the next one signs in.
    void requestJson("DELETE", "session").finally(() => location.reload())
  }
  return (
    <CallerContext value={me}>
      <Shell route={route} theme={theme} setLanguage={setLanguage} signOut={signOut}>
        {route.page !== "chat" && <DocumentTitle title={t(`nav.${route.page}`)} />}
        <ErrorBoundary resetKey={`${route.page}/${route.id}`} message={t("common.broken")}>
          <Suspense fallback={<LoadingScreen offline={false} />}>
            {route.page === "chat" && <Chat id={route.id} item={route.item} find={route.find} />}
            {route.page === "inbox" && <Inbox />}
            {route.page === "tools" && <Tools name={route.id} />}
            {route.page === "servers" && <Servers id={route.id} />}
            {route.page === "traces" && <Traces id={route.id} />}
            {route.page === "live" && <Live />}
            {route.page === "usage" && <Usage />}
            {route.page === "overview" && <Overview />}
            {route.page === "audit" && <Audit />}
            {route.page === "administration" && <Administration section={route.id} />}
            {route.page === "shared" && <SharedPage token={route.id} />}
          </Suspense>
        </ErrorBoundary>
      </Shell>
    </CallerContext>
  )
}

function LoadingScreen({ offline }: { offline: boolean }) {
  const t = createTranslate(getPreferredLanguage())
  return (
    <div className="waiting" role="status">
      {offline ? t("app.offline") : t("app.loading")}
    </div>
  )
}
