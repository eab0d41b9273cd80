import { useState, type FormEvent } from "react"
import { HttpError, describeError, requestJson } from "./wire/http"
import { useTranslate } from "./locales"

/** Exchanges a key for a session. The key itself is kept nowhere. */
export function SignIn({ onSignedIn }: { onSignedIn: () => Promise<void> }) {
  const t = useTranslate()
  const [key, setKey] = useState("")
  const [problem, setProblem] = useState("")
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
        <p>{t("signin.about")}</p>
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
