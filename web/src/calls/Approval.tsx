// The form of a call that needs approval: approve it as it is or with edited arguments, or deny it with a reason.
import { Check, Pencil, X } from "lucide-react"
import { useId, useState } from "react"
import { useConversation } from "../state/conversationContext"
import { SchemaForm } from "../components/SchemaForm"
import { formatRelative } from "../app/format"
import { withoutAddedDefaults, type Schema } from "../components/schemaFields"
import { countRemaining, describeApprovers } from "./approvalTerms"
import { ArgumentsView } from "./ArgumentsView"
import { getFirstSentence } from "../components/humanize"
import { ProblemText } from "../components/ProblemText"
import { ArgumentsDiff } from "./ArgumentsDiff"
import { getProgramText, shortenProgramCall } from "./programs/programs"
import { ProgramText } from "./programs/ProgramText"
import { Decisions } from "./Decisions"
import { UntrustedSources } from "./UntrustedSources"
import type { CallView } from "../state/view"
import { loadOpenRuns } from "../state/openRuns"
import { HttpError, requestJson } from "../wire/http"
import { useProblem } from "../wire/useProblem"
import { useLanguage, useTranslate } from "../locales"

/** The schema is null until the tools are loaded; the arguments cannot be edited before. */
export function Approval({ call, name, schema, description }: { call: CallView; name: string; schema: Record<string, unknown> | null; description: string }) {
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
  const needsReason = call.terms?.reason_required ?? false
  const lacksReason = needsReason && !reason.trim()
  const reasonLabel = t(needsReason ? "ask.reasonRequired" : "ask.reason")
  const hintId = useId()
  // The description of run_code explains to models how to write programs.
  const isProgram = getProgramText(call.call) !== null
  const about = isProgram ? t("program.about") : description
  const expires = call.expiresAt ? <small>{t("ask.expires", { when: formatRelative(call.expiresAt, Date.now() / 1000, language) })}</small> : null
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
    <div className="approval" data-program={isProgram || undefined}>
      {/* The head of the card of a program's call has its values, which say more than this title. */}
      {!call.parent && (
        <p className="approval-title">
          <strong>{t("ask.mayRun", { tool: name })}</strong>
          <small>{t("ask.since", { when: formatRelative(call.requestedAt, Date.now() / 1000, language) })}</small>
          {expires}
        </p>
      )}
      {about && <p className="about">{getFirstSentence(about)}</p>}
      {call.terms && <p className="hint">{t("ask.others", { approvers: describeApprovers(call.terms, t), n: countRemaining(call) })}</p>}
      <Decisions decisions={call.decisions} />
      {call.sources?.length ? <UntrustedSources sources={call.sources} /> : null}
      {mode === "edit" ? <SchemaForm schema={(schema ?? {}) as Schema} value={call.call.arguments} onChange={(changed) => setEdited(changed && withoutAddedDefaults((schema ?? {}) as Schema, call.call.arguments, changed))} problems={fields} /> : <Arguments call={call} schema={(schema ?? {}) as Schema} />}
      {mode === "edit" && edited && <ArgumentsDiff before={call.call.arguments} after={edited} schema={(schema ?? {}) as Schema} />}
      {(mode === "deny" || needsReason) && (
        <input aria-label={reasonLabel} aria-describedby={lacksReason ? hintId : undefined} placeholder={reasonLabel} required={needsReason} autoFocus={mode === "deny"} maxLength={10000} value={reason} onChange={(event) => setReason(event.target.value)} />
      )}
      {mode === "deny" && call.parent && <p className="hint">{t("program.denyRaises")}</p>}
      {lacksReason && (
        <p className="hint" id={hintId}>
          {t("ask.reasonHint")}
        </p>
      )}
      <ProblemText text={problem} />
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
            {t("ask.remember", { tool: name })}
          </label>
        )}
        {call.parent && expires}
      </div>
    </div>
  )
}

function Arguments({ call, schema }: { call: CallView; schema: Schema }) {
  const program = getProgramText(call.call)
  if (program !== null) return <ProgramText text={program} />
  // Those of a program's call are in the head of its card, unless they are too long for it.
  if (call.parent && shortenProgramCall(call.call.tool, call.call.arguments).whole) return null
  return <ArgumentsView schema={schema} value={call.call.arguments} />
}
