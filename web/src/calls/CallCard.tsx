// One call as a quiet card: what runs, where, how far it is; opened, with what and what came of it.
import { ChevronRight, CircleAlert, CircleCheck, CircleDashed, CircleHelp, CircleSlash, CircleX, Clock, Hand, LoaderCircle, TimerOff } from "lucide-react"
import { memo, useState } from "react"
import type { CallView } from "../state/view"
import { useConversation } from "../state/conversationContext"
import { useToolsIfKnown } from "../state/tools"
import { duration } from "../format"
import { useSay, type Say } from "../locales"
import { Approval } from "./Approval"
import { CallDetails } from "./CallDetails"
import { ClientCall } from "./ClientCall"
import { QuestionForm } from "./QuestionForm"
import { drawingOf } from "./resultDisplay"
import { Drawn, ResultView, shownAtOnce } from "./ResultView"
import { whereOf } from "./venue"

const PHASES = { written: CircleDashed, requested: CircleDashed, asking: Hand, allowed: CircleDashed, running: LoaderCircle, parked: Clock }
const OUTCOMES = { ok: CircleCheck, error: CircleX, denied: CircleSlash, expired: TimerOff, timeout: TimerOff, cancelled: CircleSlash, unknown: CircleHelp }

/** A tool of the application whose whole point is what it shows: show_products, display_cart. */
const DISPLAYS = /^(?:show|display)_/

export const CallCard = memo(function CallCard({ call, opened = false }: { call: CallView; opened?: boolean }) {
  const say = useSay()
  const tools = useToolsIfKnown()
  const tool = tools?.get(call.call.tool)
  const { decides } = useConversation()
  const [open, setOpen] = useState(opened)
  const state = call.result?.outcome ?? (call.phase === "closed" ? "ok" : call.phase)
  const atOnce = !open && call.result?.outcome === "ok" && shownAtOnce(call.result)
  const shows = call.result?.outcome === "ok" && call.appTool !== undefined && DISPLAYS.test(call.call.tool)
  const wide = open || shows || call.phase === "asking" || call.phase === "parked" || atOnce
  const Icon = call.result ? OUTCOMES[call.result.outcome] : (PHASES[call.phase as keyof typeof PHASES] ?? CircleAlert)
  return (
    <section className="call" data-state={state} data-wide={wide || undefined} aria-label={say("call.label", { tool: call.call.tool })}>
      <button className="call-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon className="call-icon" aria-hidden />
        <code>{call.call.tool}</code>
        <span className="call-brief">{brief(call)}</span>
        <span className="call-state">{stateWords(call, say)}</span>
        <ChevronRight className="chevron" aria-hidden />
      </button>
      {call.phase === "running" && <Progress call={call} />}
      {decides && call.phase === "asking" && <Approval call={call} schema={call.appTool?.parameters ?? tool?.parameters ?? (tools ? {} : null)} />}
      {decides && call.phase === "parked" && call.parked?.kind === "question" && <QuestionForm call={call} />}
      {decides && call.phase === "parked" && call.parked?.kind === "client" && <ClientCall call={call} />}
      {atOnce && call.result && <ResultView result={call.result} brief />}
      {!open && shows && <Drawn drawing={drawingOf(JSON.stringify(call.edited ?? call.call.arguments))} />}
      {open && <CallDetails call={call} where={whereOf(call, tool, say)} />}
    </section>
  )
})

function Progress({ call }: { call: CallView }) {
  const { progress } = call
  if (!progress) return null
  const total = progress.total ?? (progress.done <= 1 ? 1 : null)
  return (
    <div className="progress">
      <progress max={total ?? undefined} value={total === null ? undefined : progress.done} aria-label={call.call.tool} />
      {progress.message && <small>{progress.message}</small>}
    </div>
  )
}

function stateWords(call: CallView, say: Say): string {
  if (call.result) {
    const took = call.result.duration_ms ? ` · ${duration(call.result.duration_ms)}` : ""
    return `${say(`outcome.${call.result.outcome}`)}${took}`
  }
  const phase = call.phase === "closed" ? "running" : call.phase
  const again = call.phase === "running" && (call.attempt ?? 1) > 1 ? ` · ${say("call.attempt", { n: call.attempt ?? 1 })}` : ""
  return `${say(`phase.${phase}`)}${again}`
}

const LONGEST_BRIEF = 90

/** The arguments in one line. */
function brief(call: CallView): string {
  const values = Object.values(call.edited ?? call.call.arguments)
  const text = values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join(", ")
  return text.length > LONGEST_BRIEF ? `${text.slice(0, LONGEST_BRIEF)}…` : text
}
