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
import { nameTool } from "../components/humanize"
import { ProgramAsks } from "./programs/ProgramAsks"
import { ProgramCalls } from "./programs/ProgramCalls"
import { Printed } from "./programs/ProgramResult"
import { getProgramText, getRaised, isOpenProgram, listProgramAsks, listRunningLines, shortenProgramCall } from "./programs/programs"
import { ProgramText } from "./programs/ProgramText"
import { QuestionForm } from "./QuestionForm"
import { chooseDisplay } from "./resultDisplay"
import { DisplayView, ResultView, mayHavePicture } from "./ResultView"
import { describeVenue } from "./venue"

const PHASE_ICONS = { written: CircleDashed, requested: CircleDashed, asking: Hand, allowed: CircleDashed, running: LoaderCircle, nested: LoaderCircle, parked: Clock }
const OUTCOME_ICONS = { ok: CircleCheck, error: CircleX, denied: CircleSlash, expired: TimerOff, timeout: TimerOff, cancelled: CircleSlash, unknown: CircleHelp }

/** Names of application tools that only show something, such as show_products or display_cart: their arguments are shown. */
const DISPLAY_TOOL = /^(?:show|display)_/

interface CallCardProps {
  call: CallView
  opened?: boolean
  /** Whether the card is on that of its program, which says what its tools do. */
  nested?: boolean
}

export const CallCard = memo(function CallCard({ call, opened = false, nested = false }: CallCardProps) {
  const t = useTranslate()
  const tools = useToolsOrNull()
  const tool = tools?.get(call.call.tool)
  const name = nameTool(call.call.tool, call.appTool?.title || tool?.title || call.title)
  const { mayDecide, send } = useConversation()
  const mayApprove = mayDecideCall(call, useMe(), send !== null)
  const decides = (mayDecide || call.mayDecide) && mayApprove && call.phase === "asking"
  const program = getProgramText({ ...call.call, arguments: call.edited ?? call.call.arguments })
  const [toggled, setToggled] = useState<boolean | null>(opened || null)
  // A program is shown while it runs, so that people see where it is.
  const open = toggled ?? isOpenProgram(call)
  const phase = getPhase(call)
  const state = call.result?.outcome ?? (phase === "closed" ? "ok" : phase)
  const showsPicture = !open && call.result?.outcome === "ok" && mayHavePicture(call.result)
  const showsArguments = call.result?.outcome === "ok" && call.appTool !== undefined && DISPLAY_TOOL.test(call.call.tool)
  const wide = open || showsArguments || phase === "asking" || phase === "parked" || showsPicture
  const Icon = call.result ? OUTCOME_ICONS[call.result.outcome] : (PHASE_ICONS[phase as keyof typeof PHASE_ICONS] ?? CircleAlert)
  const raised = getRaised(call)
  return (
    <section className="call" role="group" data-state={state} data-wide={wide || undefined} aria-label={t("call.label", { tool: name })}>
      <button className="call-head" aria-expanded={open} onClick={() => setToggled(!open)}>
        <Icon className="call-icon" aria-hidden />
        {call.parent ? (
          <ProgramLine call={call} />
        ) : (
          <>
            <strong title={call.call.tool}>{name}</strong>
            {/* Below is the form of a decision with each value under its label. */}
            <span className="call-brief">{program !== null ? summarizeProgram(program, call, t) : decides ? "" : summarizeArguments(call)}</span>
          </>
        )}
        <span className="call-state">{describeState(call, t)}</span>
        <ChevronRight className="chevron" aria-hidden />
      </button>
      {call.phase === "running" && <Progress call={call} name={name} />}
      {open && program !== null && call.phase !== "asking" && <ProgramText text={program} running={listRunningLines(call)} />}
      {open && call.calls && <ProgramCalls program={call} renderCall={renderCall} />}
      {open && !call.result && call.printed && (
        <div className="program-printed">
          <Printed text={call.printed} />
        </div>
      )}
      {call.calls && <ProgramAsks program={call} renderCall={renderCall} />}
      {raised && <p className="hint call-raised">{t("program.raised", { error: raised })}</p>}
      {call.phase === "asking" && call.terms && !mayApprove && <p className="hint">{t("ask.others", { approvers: describeApprovers(call.terms, t), n: countRemaining(call) })}</p>}
      {decides && <Approval call={call} name={name} schema={call.appTool?.parameters ?? tool?.parameters ?? (tools ? {} : null)} description={nested ? "" : (call.appTool?.description ?? tool?.description ?? "")} />}
      {mayDecide && call.phase === "parked" && call.parked?.kind === "question" && <QuestionForm call={call} name={name} />}
      {mayDecide && call.phase === "parked" && call.parked?.kind === "client" && <ClientCall call={call} name={name} />}
      {showsPicture && call.result && <ResultView result={call.result} brief />}
      {!open && showsArguments && <DisplayView display={chooseDisplay(JSON.stringify(call.edited ?? call.call.arguments))} />}
      {open && <CallDetails call={call} where={describeVenue(call, tool, t)} />}
    </section>
  )
})

function renderCall(call: CallView) {
  return <CallCard key={call.id} call={call} nested />
}

/** A call of a program as the program makes it: its line, its name and its values. */
function ProgramLine({ call }: { call: CallView }) {
  const t = useTranslate()
  return (
    <span className="call-line">
      {call.line ? `${t("program.atLine", { n: call.line })} ` : ""}
      <code>{shortenProgramCall(call.call.tool, call.edited ?? call.call.arguments).text}</code>
    </span>
  )
}

/** Return the phase to show: a program that waits for a person is shown as what it waits for. */
function getPhase(call: CallView): CallView["phase"] {
  if (call.phase !== "nested") return call.phase
  const asks = listProgramAsks(call)
  return asks.find((ask) => ask.phase === "asking")?.phase ?? asks[0]?.phase ?? "running"
}

function Progress({ call, name }: { call: CallView; name: string }) {
  const { progress } = call
  if (!progress) return null
  // MCP lets a server leave out the total; a progress up to 1 is then most likely a fraction.
  const total = progress.total ?? (progress.done <= 1 ? 1 : null)
  return (
    <div className="progress">
      <progress max={total ?? undefined} value={total === null ? undefined : progress.done} aria-label={name} />
      {progress.message && <small>{progress.message}</small>}
    </div>
  )
}

function describeState(call: CallView, t: Translate): string {
  if (call.result) {
    const took = call.result.duration_ms ? ` · ${formatDuration(call.result.duration_ms)}` : ""
    return `${t(wasNotRun(call) ? "outcome.notRun" : `outcome.${call.result.outcome}`)}${took}`
  }
  const shown = getPhase(call)
  const phase = shown === "closed" || shown === "nested" ? "running" : shown
  // A program is run again after each wait, which is no other attempt.
  const attempt = call.phase === "running" && !call.calls && (call.attempt ?? 1) > 1 ? ` · ${t("call.attempt", { n: call.attempt ?? 1 })}` : ""
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

/** Return the comment at the beginning of a program, if it has one, and how many calls it has made, once it has ended. */
function summarizeProgram(program: string, call: CallView, t: Translate): string {
  const comment = /^\s*#\s*(.+)/.exec(program)?.[1] ?? ""
  return [comment.slice(0, MAX_SUMMARY_CHARS), call.calls && call.result ? t("program.calls", { n: call.calls.length }) : ""].filter(Boolean).join(" · ")
}

/** Return the values of the arguments in one line. */
function summarizeArguments(call: CallView): string {
  const values = Object.values(call.edited ?? call.call.arguments).filter((value) => value !== "" && value !== null)
  const text = values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join(", ")
  return text.length > MAX_SUMMARY_CHARS ? `${text.slice(0, MAX_SUMMARY_CHARS)}…` : text
}
