import { useEffect, useState, type FormEvent } from "react"
import { ProblemText } from "../components/ProblemText"
import { HttpError, describeError, requestJson, resolveUrl } from "../wire/http"
import type { SignInOptions } from "../wire/types"
import { formatSpan } from "../app/format"
import { useLanguage, useTranslate } from "../locales"
import { clearSignInError, findSignInError, rememberRoute } from "./providerSignIn"

/** Exchanges a key for a session, or leads to the identity provider. The key itself is kept nowhere. */
export function SignIn({ onSignedIn }: { onSignedIn: () => Promise<void> }) {
  const t = useTranslate()
  const [key, setKey] = useState("")
  const language = useLanguage()
  const [options, setOptions] = useState<SignInOptions | null>(null)
  const [providerError] = useState(() => findSignInError(location.search))
  const [problem, setProblem] = useState(providerError ? t(providerError) : "")
  useEffect(() => {
    if (providerError) clearSignInError()
    // Without an answer the page offers the key alone.
    requestJson<SignInOptions>("GET", "session").then(setOptions, () => {})
  }, [providerError])
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setProblem("")
    try {
      await requestJson("POST", "session", { key: key.trim() })
    } catch (error) {
      setProblem(error instanceof HttpError && error.status === 401 ? t("signin.wrong") : describeError(error))
      return
    }
    await onSignedIn()
    setProblem(t("signin.notKept")) // still shown after signing in: the browser did not keep the cookie
  }
  return (
    <main className="signin">
      <form onSubmit={submit} className="signin-card">
        <h1>{t("signin.title")}</h1>
        {options?.provider && (
          <a className="button" href={resolveUrl("session/oidc").pathname} onClick={rememberRoute}>
            {t("signin.provider", { name: options.provider })}
          </a>
        )}
        <p>
          {t(options?.provider ? "signin.orKey" : "signin.about")} {options && t("signin.stay", { idle: formatSpan(options.idle_s, language), total: formatSpan(options.total_s, language) })}
        </p>
        <label htmlFor="key">{t("signin.key")}</label>
        <input id="key" type="password" autoComplete="off" spellCheck={false} autoFocus value={key} onChange={(event) => setKey(event.target.value)} />
        <ProblemText text={problem} />
        <button className="primary" disabled={!key.trim()}>
          {t("signin.go")}
        </button>
      </form>
    </main>
  )
}
