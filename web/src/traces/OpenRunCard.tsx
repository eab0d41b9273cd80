// A run that is active or waits, with a button to stop it and the forms of the calls that wait.
import { Square } from "lucide-react"
import { Fragment, useMemo } from "react"
import { maySeeRun, useMe } from "../session/caller"
import { CallCard } from "../calls/CallCard"
import { nameTool } from "../components/humanize"
import { BudgetWait } from "../chat/BudgetWait"
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
  // The calls of a program are shown on its card, unless the user sees nothing else of the run than a call to decide.
  const programs = run.calls.filter((call) => call.phase === "nested" && call.call)
  const single = run.calls.filter((call) => !programs.some(({ id }) => id === call.id || id === call.parent))
  const waiting = single.filter((call) => call.waits_for && call.call)
  const others = single.filter((call) => !waiting.includes(call))
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
      {run.budget && <BudgetWait name={run.budget} />}
      {others.length > 0 && (
        <ul className="open-calls">
          {others.map((call) => (
            <li key={call.id}>
              <strong title={call.tool}>{nameTool(call.tool, call.title)}</strong> <span className="pill">{t(`phase.${call.phase === "nested" ? "running" : call.phase}` as MessageKey)}</span>
            </li>
          ))}
        </ul>
      )}
      <ConversationContext value={context}>
        {programs.map((program) => (
          <CallCard key={program.id} call={toProgramView(program, run.calls)} />
        ))}
        {waiting.map((call) => (
          <Fragment key={call.id}>
            {call.parent && <p className="hint">{t("program.hidden", { n: call.line })}</p>}
            <CallCard call={toCallView(call)} />
          </Fragment>
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
  const { id, call, title = "", parked, phase, expires_at: expiresAt, parent, line } = open
  return { id, call: call!, title, phase, requestedAt: call!.at, expiresAt, sources: open.sources ?? [], parent, line, ...toApproval(open), ...(parked ? { parked } : {}) }
}

/** Return a program with those of its calls that are open. */
function toProgramView(program: OpenCall, calls: OpenCall[]): CallView {
  return { ...toCallView(program), calls: calls.filter((call) => call.parent === program.id).map(toCallView) }
}
