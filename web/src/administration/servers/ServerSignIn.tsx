// Signs in to an MCP server, on a page that opens in a new tab. On the user's own machine that tab comes back by itself; a
// server elsewhere has the tab lead to the loopback, where no program listens, so that its address is pasted here.
import { useEffect, useState, type FormEvent } from "react"
import { Dialog } from "../../components/Dialog"
import { ProblemText } from "../../components/ProblemText"
import { useAdministrationText } from "../../locales/administration"
import { requestJson } from "../../wire/http"
import type { ServerAnswer, ServerView, SignInPage } from "../../wire/types"
import { findReturnAddress, followSignIns } from "../../session/serverSignIn"
import { useProblem } from "../../wire/useProblem"
import { FieldInput } from "../settings/FieldInput"
import { readSignInAnswer } from "./serverConfig"
import "../../style/administration.css"

/** An address of the user's own machine: the browser shows it after the sign-in, with the answer in it. */
const PASTED_URI = "http://127.0.0.1:47811/callback"

export default function ServerSignIn({ server, onChanged, onClose }: { server: Pick<ServerView, "id" | "name">; onChanged: () => void; onClose: () => void }) {
  const a = useAdministrationText()
  const path = `servers/${encodeURIComponent(server.id)}/login`
  const [page, setPage] = useState<SignInPage | null>(null)
  const [address, setAddress] = useState("")
  const [message, setMessage] = useState("")
  const [problem, fail, clear] = useProblem()
  const act = async (work: () => Promise<void>) => {
    clear()
    setMessage("")
    await work().catch(fail)
    onChanged()
  }
  const begin = () => act(async () => setPage(await requestJson<SignInPage>("POST", path, { redirect_uri: findReturnAddress(location) ?? PASTED_URI })))
  const send = (answer: Record<string, string> | null) =>
    act(async () => {
      if (!answer) throw new Error(a("servers.signInWrong"))
      setMessage((await requestJson<ServerAnswer>("POST", `${path}/answer`, answer)).message)
      setPage(null)
    })
  const finish = (event: FormEvent) => {
    event.preventDefault()
    void send(page && readSignInAnswer(address, page.state))
  }
  useEffect(() => {
    if (!page) return
    return followSignIns((returned) => {
      const answer = readSignInAnswer(returned, page.state)
      if (answer) void send(answer) // another one is of another dialog
    })
  })
  const signOut = () => act(async () => setMessage((await requestJson<ServerAnswer>("DELETE", path)).message))
  return (
    <Dialog title={a("servers.signInOf", { name: server.name })} onClose={onClose}>
      <p>{a(findReturnAddress(location) ? "servers.signInReturns" : "servers.signInAbout")}</p>
      {page ? (
        <form className="entry-form" onSubmit={finish}>
          <a className="button" href={page.authorization_url} target="_blank" rel="noreferrer">
            {a("servers.signInOpen")}
          </a>
          <FieldInput label={a("servers.signInAnswer")} kind="text" required value={address} onChange={(typed) => setAddress(String(typed ?? ""))} />
          <footer>
            <button className="primary">{a("servers.signInFinish")}</button>
          </footer>
        </form>
      ) : (
        <div className="button-row">
          <button className="primary" onClick={() => void begin()}>
            {a("servers.signIn")}
          </button>
          <button onClick={() => void signOut()}>{a("servers.signOut")}</button>
        </div>
      )}
      {message && <p role="status">{message}</p>}
      <ProblemText text={problem} />
    </Dialog>
  )
}
