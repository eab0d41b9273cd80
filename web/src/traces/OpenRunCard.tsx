// A run that is active or waits, with a button to stop it and the forms of the calls that wait.
import { Square } from "lucide-react"
import { useMemo } from "react"
import { maySeeRun, useMe } from "../session/caller"
import { CallCard } from "../calls/CallCard"
import { formatRelative } from "../app/format"
import { buildHref } from "../app/route"
import { ConversationContext } from "../state/conversationContext"
import { loadOpenRuns } from "../state/openRuns"
import type { CallView } from "../state/view"
import { requestJson } from "../wire/http"
import { useProblem } from "../wire/useProblem"
import type { OpenCall, OpenRun } from "../wire/types"
import { useLanguage, useTranslate, type MessageKey } from "../locales"
import { StatusPill } from "./StatusPill"

export function OpenRunCard({ run, onChanged }: { run: OpenRun; onChanged: () => void }) {
  const t = useTranslate()
  const language = useLanguage()
  const isVisible = maySeeRun(useMe(), run)
  const [problem, fail, clear] = useProblem()
  const stop = () => {
    clear()
    const stopped = requestJson("POST", `conversations/${encodeURIComponent(run.conversation)}/cancel`, {})
    stopped.then(onChanged, fail).finally(() => void loadOpenRuns())
  }
  const waiting = run.calls.filter((call) => call.waits_for && call.call)
  const others = run.calls.filter((call) => !waiting.includes(call))
  const context = useMemo(() => ({ conversation: run.conversation, send: null, mayDecide: run.may_stop, actions: null }), [run.conversation, run.may_stop])
  return (
    <li className="card">
      <header>
        <StatusPill status={run.status} />
        {isVisible ? <a href={buildHref("chat", run.conversation)}>{run.title || t("list.untitled")}</a> : <span>{t("inbox.requestedBy", { user: run.user })}</span>}
        <span className="grow" />
        {run.may_stop && (
          <button onClick={stop} aria-label={`${t("chat.stop")}: ${run.title}`}>
            <Square aria-hidden /> {t("chat.stop")}
          </button>
        )}
      </header>
      <p className="facts">
        {isVisible && <span>{run.user}</span>}
        <span>{run.model}</span>
        <span>{t("live.since", { when: formatRelative(run.started_at, Date.now() / 1000, language) })}</span>
        {run.queued > 0 && <span>{t("live.queued", { n: run.queued })}</span>}
        {isVisible && <a href={buildHref("traces", run.correlation_id)}>{t("chat.trace")}</a>}
      </p>
      {others.length > 0 && (
        <ul className="open-calls">
          {others.map((call) => (
            <li key={call.id}>
              <code>{call.tool}</code> <span className="pill">{t(`phase.${call.phase}` as MessageKey)}</span>
            </li>
          ))}
        </ul>
      )}
      <ConversationContext value={context}>
        {waiting.map((call) => (
          <CallCard key={call.id} call={toCallView(call)} />
        ))}
      </ConversationContext>
      {problem && <p className="problem">{problem}</p>}
    </li>
  )
}

/** Return what the server says about a call that asks: it knows whether the user may decide. */
function toApproval({ approval, terms }: OpenCall): Partial<CallView> {
  if (!approval) return {}
  return { rule: approval.rule, terms: terms ?? null, approvedBy: approval.approved_by, decisions: approval.decisions, mayDecide: approval.may_decide }
}

function toCallView(open: OpenCall): CallView {
  const { call, parked } = open
  return { id: open.id, call: call!, phase: open.phase, requestedAt: call!.at, expiresAt: open.expires_at, sources: open.sources ?? [], ...toApproval(open), ...(parked ? { parked } : {}) }
}
