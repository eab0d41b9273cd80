// The calls of a program that wait: each with its own form, and buttons that decide all of them alike.
import { CheckCheck, X } from "lucide-react"
import { useState, type ReactNode } from "react"
import { ProblemText } from "../../components/ProblemText"
import { useMe } from "../../session/caller"
import { useConversation } from "../../state/conversationContext"
import { useTools } from "../../state/tools"
import { isUnjudged, type CallView } from "../../state/view"
import { useProblem } from "../../wire/useProblem"
import { useTranslate } from "../../locales"
import { mayDecideCall } from "../approvalTerms"
import { decideCalls } from "../decideCalls"
import { listProgramAsks } from "./programs"

export function ProgramAsks({ program, renderCall }: { program: CallView; renderCall: (call: CallView) => ReactNode }) {
  const tools = useTools()
  const asks = listProgramAsks(program)
  if (!asks.length) return null
  return (
    <div className="program-asks">
      {[...new Set(asks.map((call) => call.call.tool))].map((name) => (
        <p key={name} className="about">
          <code>{name}</code> {tools.get(name)?.description}
        </p>
      ))}
      <div className="calls">{asks.map(renderCall)}</div>
      {!program.calls?.some(isUnjudged) && <DecideAll asks={asks} />}
    </div>
  )
}

/**
 * Buttons for the calls that the user may decide alone. Calls after content that strangers may have written are denied with
 * the others, but not approved: a person has to look at each of them.
 */
function DecideAll({ asks }: { asks: CallView[] }) {
  const t = useTranslate()
  const me = useMe()
  const { conversation, mayDecide, send } = useConversation()
  const [denying, setDenying] = useState(false)
  const [reason, setReason] = useState("")
  const [busy, setBusy] = useState(false)
  const [problem, fail, clear] = useProblem()
  const decidable = asks.filter((call) => call.phase === "asking" && !call.terms && (mayDecide || call.mayDecide) && mayDecideCall(call, me, send !== null))
  const approvable = decidable.filter((call) => !call.sources?.length)
  if (decidable.length < 2) return null
  const decide = async (decision: "approve" | "deny") => {
    setBusy(true)
    clear()
    await decideCalls(conversation, decision === "approve" ? approvable : decidable, decision, decision === "deny" ? { reason } : {}).catch(fail)
    setBusy(false)
  }
  return (
    <div className="decide-all">
      <strong>{t("ask.several", { n: asks.length })}</strong>
      {denying && (
        <>
          <input aria-label={t("ask.reason")} placeholder={t("ask.reason")} autoFocus maxLength={10000} value={reason} onChange={(event) => setReason(event.target.value)} />
          <p className="hint">{t("program.denyRaises")}</p>
        </>
      )}
      <ProblemText text={problem} />
      <div className="approval-actions">
        {!denying && approvable.length > 1 && (
          <button className="primary" disabled={busy} onClick={() => void decide("approve")}>
            <CheckCheck aria-hidden /> {t("program.approveAll", { n: approvable.length })}
          </button>
        )}
        <button className={denying ? "danger" : ""} disabled={busy} onClick={() => (denying ? void decide("deny") : setDenying(true))}>
          <X aria-hidden /> {t("program.denyAll", { n: decidable.length })}
        </button>
        {denying && (
          <button className="quiet" disabled={busy} onClick={() => setDenying(false)}>
            {t("common.cancel")}
          </button>
        )}
      </div>
    </div>
  )
}
