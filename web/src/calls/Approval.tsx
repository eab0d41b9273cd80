// A call that needs somebody's yes: approve it as it is or edited, or deny it with a reason.
import { Check, Pencil, X } from "lucide-react"
import { useState } from "react"
import { useConversation } from "../state/conversationContext"
import { Json } from "../components/JsonView"
import { SchemaForm } from "../components/SchemaForm"
import { relative } from "../format"
import type { Schema } from "../components/schemaFields"
import type { CallView } from "../state/view"
import { Refusal, ask, part, said } from "../wire/http"
import { useLanguage, useSay } from "../locales"

/** Without a schema, which is on its way, nothing can be edited yet. */
export function Approval({ call, schema }: { call: CallView; schema: Record<string, unknown> | null }) {
  const say = useSay()
  const language = useLanguage()
  const { conversation } = useConversation()
  const [mode, setMode] = useState<"plain" | "edit" | "deny">("plain")
  const [edited, setEdited] = useState<Record<string, unknown> | null>(call.call.arguments)
  const [remember, setRemember] = useState(false)
  const [reason, setReason] = useState("")
  const [busy, setBusy] = useState(false)
  const [problem, setProblem] = useState("")
  const [fields, setFields] = useState<Record<string, string>>({})
  const tool = call.call.tool
  const decide = async (how: "approve" | "deny", body: Record<string, unknown>) => {
    setBusy(true)
    setProblem("")
    try {
      await ask("POST", `conversations/${part(conversation)}/calls/${part(call.id)}/${how}`, body)
    } catch (error) {
      setProblem(said(error))
      setFields(error instanceof Refusal ? error.fields : {})
      setBusy(false)
    }
  }
  const approve = () => void decide("approve", { ...(mode === "edit" && edited ? { arguments: edited } : {}), ...(remember ? { remember: "tool" } : {}) })
  return (
    <div className="approval">
      <p className="approval-title">
        <strong>{say("ask.title", { tool })}</strong>
        {call.expiresAt ? <small>{say("ask.expires", { when: relative(call.expiresAt, Date.now() / 1000, language) })}</small> : null}
      </p>
      {mode === "edit" ? <SchemaForm schema={(schema ?? {}) as Schema} value={call.call.arguments} onChange={setEdited} problems={fields} /> : <Json value={call.call.arguments} />}
      {mode === "deny" && (
        <input aria-label={say("ask.reason")} placeholder={say("ask.reason")} autoFocus maxLength={10000} value={reason} onChange={(event) => setReason(event.target.value)} />
      )}
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      <div className="approval-actions">
        {mode !== "deny" && (
          <button className="primary" disabled={busy || (mode === "edit" && !edited)} onClick={approve}>
            <Check aria-hidden /> {say(mode === "edit" ? "ask.approveEdited" : "ask.approve")}
          </button>
        )}
        {mode === "plain" && (
          <button disabled={busy || !schema} onClick={() => setMode("edit")}>
            <Pencil aria-hidden /> {say("ask.edit")}
          </button>
        )}
        <button className={mode === "deny" ? "danger" : ""} disabled={busy} onClick={() => (mode === "deny" ? void decide("deny", { reason }) : setMode("deny"))}>
          <X aria-hidden /> {say("ask.deny")}
        </button>
        {mode !== "plain" && (
          <button className="quiet" disabled={busy} onClick={() => setMode("plain")}>
            {say("common.cancel")}
          </button>
        )}
        {mode !== "deny" && call.call.confirm !== "ask" && (
          <label className="remember">
            <input type="checkbox" checked={remember} onChange={(event) => setRemember(event.target.checked)} />
            {say("ask.remember", { tool })}
          </label>
        )}
      </div>
    </div>
  )
}
