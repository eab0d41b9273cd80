import { useState, type FormEvent } from "react"
import { visitor } from "./wire/http"
import { useSay } from "./locales"

export function SignIn({ onSignedIn }: { onSignedIn: () => Promise<void> }) {
  const say = useSay()
  const [key, setKey] = useState("")
  const [wrong, setWrong] = useState(visitor.key !== "")
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    visitor.key = key.trim()
    setWrong(false)
    await onSignedIn()
    setWrong(true)
  }
  return (
    <main className="signin">
      <form onSubmit={submit} className="signin-card">
        <h1>{say("signin.title")}</h1>
        <p>{say("signin.about")}</p>
        <label htmlFor="key">{say("signin.key")}</label>
        <input id="key" type="password" autoComplete="off" spellCheck={false} autoFocus value={key} onChange={(event) => setKey(event.target.value)} />
        {wrong && (
          <p className="problem" role="alert">
            {say("signin.wrong")}
          </p>
        )}
        <button className="primary" disabled={!key.trim()}>
          {say("signin.go")}
        </button>
      </form>
    </main>
  )
}
