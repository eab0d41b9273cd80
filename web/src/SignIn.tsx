import { useEffect, useState, type FormEvent } from "react"
import { HttpError, describeError, requestJson, resolveUrl } from "./wire/http"
import type { SignInOptions } from "./wire/types"
import { useTranslate } from "./locales"
import { clearSignInError, findSignInError, rememberRoute } from "./providerSignIn"

/** Exchanges a key for a session, or leads to the identity provider. The key itself is kept nowhere. */
export function SignIn({ onSignedIn }: { onSignedIn: () => Promise<void> }) {
  const t = useTranslate()
  const [key, setKey] = useState("")
  const [provider, setProvider] = useState("")
  const [providerError] = useState(() => findSignInError(location.search))
  const [problem, setProblem] = useState(providerError ? t(providerError) : "")
  useEffect(() => {
    if (providerError) clearSignInError()
    // Without an answer the page offers the key alone.
    requestJson<SignInOptions>("GET", "session").then(
      (options) => setProvider(options.provider),
      () => {},
    )
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
        {provider && (
          <a className="button" href={resolveUrl("session/oidc").pathname} onClick={rememberRoute}>
            {t("signin.provider", { name: provider })}
          </a>
        )}
        <p>{t(provider ? "signin.orKey" : "signin.about")}</p>
        <label htmlFor="key">{t("signin.key")}</label>
        <input id="key" type="password" autoComplete="off" spellCheck={false} autoFocus value={key} onChange={(event) => setKey(event.target.value)} />
        {problem && (
          <p className="problem" role="alert">
            {problem}
          </p>
        )}
        <button className="primary" disabled={!key.trim()}>
          {t("signin.go")}
        </button>
      </form>
    </main>
  )
}
