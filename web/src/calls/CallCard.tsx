// The card of a call: its tool and its state; opened, its arguments and its result.
import { ChevronRight, CircleAlert, CircleCheck, CircleDashed, CircleHelp, CircleSlash, CircleX, Clock, Hand, LoaderCircle, TimerOff } from "lucide-react"
import { memo, useState } from "react"
import type { CallView } from "../state/view"
import { useConversation } from "../state/conversationContext"
import { useToolsOrNull } from "../state/tools"
import { formatDuration } from "../app/format"
import { useTranslate, type Translate } from "../locales"
import { useMe } from "../session/caller"
import { Approval } from "./Approval"
import { countRemaining, describeApprovers, mayDecideCall } from "./approvalTerms"
import { CallDetails } from "./CallDetails"
import { ClientCall } from "./ClientCall"
import { QuestionForm } from "./QuestionForm"
import { chooseDisplay } from "./resultDisplay"
import { DisplayView, ResultView, mayHavePicture } from "./ResultView"
import { describeVenue } from "./venue"

const PHASE_ICONS = { written: CircleDashed, requested: CircleDashed, asking: Hand, allowed: CircleDashed, running: LoaderCircle, parked: Clock }
const OUTCOME_ICONS = { ok: CircleCheck, error: CircleX, denied: CircleSlash, expired: TimerOff, timeout: TimerOff, cancelled: CircleSlash, unknown: CircleHelp }

/** Names of application tools that only show something, such as show_products or display_cart: their arguments are shown. */
const DISPLAY_TOOL = /^(?:show|display)_/

export const CallCard = memo(function CallCard({ call, opened = false }: { call: CallView; opened?: boolean }) {
  const t = useTranslate()
  const tools = useToolsOrNull()
  const tool = tools?.get(call.call.tool)
  const { mayDecide, send } = useConversation()
  const mayApprove = mayDecideCall(call, useMe(), send !== null)
  const [open, setOpen] = useState(opened)
  const state = call.result?.outcome ?? (call.phase === "closed" ? "ok" : call.phase)
  const showsPicture = !open && call.result?.outcome === "ok" && mayHavePicture(call.result)
  const showsArguments = call.result?.outcome === "ok" && call.appTool !== undefined && DISPLAY_TOOL.test(call.call.tool)
  const wide = open || showsArguments || call.phase === "asking" || call.phase === "parked" || showsPicture
  const Icon = call.result ? OUTCOME_ICONS[call.result.outcome] : (PHASE_ICONS[call.phase as keyof typeof PHASE_ICONS] ?? CircleAlert)
  return (
    <section className="call" role="group" data-state={state} data-wide={wide || undefined} aria-label={t("call.label", { tool: call.call.tool })}>
      <button className="call-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon className="call-icon" aria-hidden />
        <code>{call.call.tool}</code>
        <span className="call-brief">{summarizeArguments(call)}</span>
        <span className="call-state">{describeState(call, t)}</span>
        <ChevronRight className="chevron" aria-hidden />
      </button>
      {call.phase === "running" && <Progress call={call} />}
      {call.phase === "asking" && call.terms && !mayApprove && <p className="hint">{t("ask.others", { approvers: describeApprovers(call.terms, t), n: countRemaining(call) })}</p>}
      {(mayDecide || call.mayDecide) && mayApprove && call.phase === "asking" && <Approval call={call} schema={call.appTool?.parameters ?? tool?.parameters ?? (tools ? {} : null)} description={call.appTool?.description ?? tool?.description ?? ""} />}
      {mayDecide && call.phase === "parked" && call.parked?.kind === "question" && <QuestionForm call={call} />}
      {mayDecide && call.phase === "parked" && call.parked?.kind === "client" && <ClientCall call={call} />}
      {showsPicture && call.result && <ResultView result={call.result} brief />}
      {!open && showsArguments && <DisplayView display={chooseDisplay(JSON.stringify(call.edited ?? call.call.arguments))} />}
      {open && <CallDetails call={call} where={describeVenue(call, tool, t)} />}
    </section>
  )
})

function Progress({ call }: { call: CallView }) {
  const { progress } = call
  if (!progress) return null
  // MCP lets a server leave out the total; a progress up to 1 is then most likely a fraction.
  const total = progress.total ?? (progress.done <= 1 ? 1 : null)
  return (
    <div className="progress">
      <progress max={total ?? undefined} value={total === null ? undefined : progress.done} aria-label={call.call.tool} />
      {progress.message && <small>{progress.message}</small>}
    </div>
  )
}

function describeState(call: CallView, t: Translate): string {
  if (call.result) {
    const took = call.result.duration_ms ? ` · ${formatDuration(call.result.duration_ms)}` : ""
    return `${t(wasNotRun(call) ? "outcome.notRun" : `outcome.${call.result.outcome}`)}${took}`
  }
  const phase = call.phase === "closed" ? "running" : call.phase
  const attempt = call.phase === "running" && (call.attempt ?? 1) > 1 ? ` · ${t("call.attempt", { n: call.attempt ?? 1 })}` : ""
  return `${t(`phase.${phase}`)}${attempt}`
}

/** Error types of calls that are refused before they run: nothing happened, so nothing failed either. */
const REFUSALS = new Set(["validation_error", "json_parse_error", "unknown_tool", "permission_denied"])

/** Return whether a call was refused by a rule or by a check, and not by a person, who is named elsewhere. */
function wasNotRun(call: CallView): boolean {
  if (call.startedAt || call.providerRanIt || call.decision === "denied") return false
  return call.verdict === "deny" || REFUSALS.has(call.result?.error?.error_type ?? "")
}

const MAX_SUMMARY_CHARS = 90

/** Return the values of the arguments in one line. */
function summarizeArguments(call: CallView): string {
  const values = Object.values(call.edited ?? call.call.arguments)
  const text = values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join(", ")
  return text.length > MAX_SUMMARY_CHARS ? `${text.slice(0, MAX_SUMMARY_CHARS)}…` : text
}
