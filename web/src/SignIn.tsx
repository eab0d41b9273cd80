import { useState, type FormEvent } from "react"
import { session } from "./wire/http"
import { useTranslate } from "./locales"

export function SignIn({ onSignedIn }: { onSignedIn: () => Promise<void> }) {
  const t = useTranslate()
  const [key, setKey] = useState("")
  const [wrong, setWrong] = useState(session.key !== "")
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    session.key = key.trim()
    setWrong(false)
    await onSignedIn()
    setWrong(true) // still shown after signing in: the server did not know the key
  }
  return (
    <main className="signin">
      <form onSubmit={submit} className="signin-card">
        <h1>{t("signin.title")}</h1>
        <p>{t("signin.about")}</p>
        <label htmlFor="key">{t("signin.key")}</label>
        <input id="key" type="password" autoComplete="off" spellCheck={false} autoFocus value={key} onChange={(event) => setKey(event.target.value)} />
        {wrong && (
          <p className="problem" role="alert">
            {t("signin.wrong")}
          </p>
        )}
        <button className="primary" disabled={!key.trim()}>
          {t("signin.go")}
        </button>
      </form>
    </main>
  )
}
