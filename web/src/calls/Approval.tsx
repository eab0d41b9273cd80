// The form of a call that needs approval: approve it as it is or with edited arguments, or deny it with a reason.
import { Check, Pencil, X } from "lucide-react"
import { useId, useState } from "react"
import { useConversation } from "../state/conversationContext"
import { JsonView } from "../components/JsonView"
import { SchemaForm } from "../components/SchemaForm"
import { formatRelative } from "../app/format"
import { withoutAddedDefaults, type Schema } from "../components/schemaFields"
import { countRemaining, describeApprovers } from "./approvalTerms"
import { ArgumentsDiff } from "./ArgumentsDiff"
import { Decisions } from "./Decisions"
import { UntrustedSources } from "./UntrustedSources"
import type { CallView } from "../state/view"
import { loadOpenRuns } from "../state/openRuns"
import { HttpError, requestJson } from "../wire/http"
import { useProblem } from "../wire/useProblem"
import { useLanguage, useTranslate } from "../locales"

/** The schema is null until the tools are loaded; the arguments cannot be edited before. */
export function Approval({ call, schema, description }: { call: CallView; schema: Record<string, unknown> | null; description: string }) {
  const t = useTranslate()
  const language = useLanguage()
  const { conversation } = useConversation()
  const [mode, setMode] = useState<"plain" | "edit" | "deny">("plain")
  const [edited, setEdited] = useState<Record<string, unknown> | null>(call.call.arguments)
  const [remember, setRemember] = useState(false)
  const [reason, setReason] = useState("")
  const [busy, setBusy] = useState(false)
  const [problem, fail, clear] = useProblem()
  const [fields, setFields] = useState<Record<string, string>>({})
  const tool = call.call.tool
  const needsReason = call.terms?.reason_required ?? false
  const lacksReason = needsReason && !reason.trim()
  const reasonLabel = t(needsReason ? "ask.reasonRequired" : "ask.reason")
  const hintId = useId()
  const several = (call.terms?.quorum ?? 1) > 1
  const decide = async (decision: "approve" | "deny", body: Record<string, unknown>) => {
    setBusy(true)
    clear()
    try {
      await requestJson("POST", `conversations/${encodeURIComponent(conversation)}/calls/${encodeURIComponent(call.id)}/${decision}`, body)
      void loadOpenRuns()
    } catch (error) {
      fail(error)
      setFields(error instanceof HttpError ? error.fields : {})
      setBusy(false) // after a success the form stays disabled until the entry of the decision removes it
    }
  }
  const approve = () => void decide("approve", { ...(needsReason ? { reason } : {}), ...(mode === "edit" && edited ? { arguments: edited } : {}), ...(remember ? { remember: "tool" } : {}) })
  return (
    <div className="approval">
      <p className="approval-title">
        <strong>{t("ask.title", { tool })}</strong>
        {call.expiresAt ? <small>{t("ask.expires", { when: formatRelative(call.expiresAt, Date.now() / 1000, language) })}</small> : null}
      </p>
      {description && <p className="about">{description}</p>}
      {call.terms && <p className="hint">{t("ask.others", { approvers: describeApprovers(call.terms, t), n: countRemaining(call) })}</p>}
      <Decisions decisions={call.decisions} />
      {call.sources?.length ? <UntrustedSources sources={call.sources} /> : null}
      {mode === "edit" ? <SchemaForm schema={(schema ?? {}) as Schema} value={call.call.arguments} onChange={(changed) => setEdited(changed && withoutAddedDefaults((schema ?? {}) as Schema, call.call.arguments, changed))} problems={fields} /> : <JsonView value={call.call.arguments} />}
      {mode === "edit" && edited && <ArgumentsDiff before={call.call.arguments} after={edited} />}
      {(mode === "deny" || needsReason) && (
        <input aria-label={reasonLabel} aria-describedby={lacksReason ? hintId : undefined} placeholder={reasonLabel} required={needsReason} autoFocus={mode === "deny"} maxLength={10000} value={reason} onChange={(event) => setReason(event.target.value)} />
      )}
      {lacksReason && (
        <p className="hint" id={hintId}>
          {t("ask.reasonHint")}
        </p>
      )}
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      <div className="approval-actions">
        {mode !== "deny" && (
          <button className="primary" disabled={busy || lacksReason || (mode === "edit" && !edited)} onClick={approve}>
            <Check aria-hidden /> {t(mode === "edit" ? "ask.approveEdited" : "ask.approve")}
          </button>
        )}
        {mode === "plain" && !several && (
          <button disabled={busy || !schema} onClick={() => setMode("edit")}>
            <Pencil aria-hidden /> {t("ask.edit")}
          </button>
        )}
        <button className={mode === "deny" ? "danger" : ""} disabled={busy || lacksReason} onClick={() => (mode === "deny" || needsReason ? void decide("deny", { reason }) : setMode("deny"))}>
          <X aria-hidden /> {t("ask.deny")}
        </button>
        {mode !== "plain" && (
          <button className="quiet" disabled={busy} onClick={() => setMode("plain")}>
            {t("common.cancel")}
          </button>
        )}
        {mode !== "deny" && call.call.confirm !== "ask" && !call.terms && !call.sources?.length && (
          <label className="remember">
            <input type="checkbox" checked={remember} onChange={(event) => setRemember(event.target.checked)} />
            {t("ask.remember", { tool })}
          </label>
        )}
      </div>
    </div>
  )
}
