// A run over time: a bar for each turn, call and wait. A bar opens to tell more.
import { useMemo, useState } from "react"
import { Json } from "../components/JsonView"
import { count, duration } from "../format"
import type { CallSpan, Compaction, Trace, TurnSpan } from "../wire/types"
import { useLanguage, useSay, type Word } from "../locales"
import { KeptTurn } from "./RecordedTurn"
import { axisOf, spansOf, type Axis, type Span } from "./waterfallLayout"

const LEGEND = [
  ["turn", "traces.thinking"],
  ["work", "traces.working"],
  ["asking", "traces.asking"],
] as const

export function Waterfall({ trace }: { trace: Trace }) {
  const say = useSay()
  const axis = useMemo(() => axisOf(trace, Date.now() / 1000), [trace])
  const spans = useMemo(() => spansOf(trace, { turn: (n) => say("traces.turn", { n }), wait: say("traces.wait"), room: say("traces.room") }), [trace, say])
  const [open, setOpen] = useState("")
  return (
    <div className="waterfall">
      <ul>
        {spans.map((span) => (
          <li key={span.id} data-kind={span.kind}>
            <button className="span" aria-expanded={open === span.id} onClick={() => setOpen(open === span.id ? "" : span.id)}>
              <span className="span-label">{span.kind === "call" ? <code>{span.label}</code> : span.label}</span>
              <Bars span={span} axis={axis} />
              <span className="span-took">{span.tookMs === null ? "…" : duration(span.tookMs)}</span>
            </button>
            {open === span.id && <Details trace={trace} span={span} />}
          </li>
        ))}
      </ul>
      <p className="legend">
        {LEGEND.map(([kind, word]) => (
          <span key={kind}>
            <i data-kind={kind} /> {say(word)}
          </span>
        ))}
        {axis.shortened && <em>{say("traces.short")}</em>}
      </p>
    </div>
  )
}

function Bars({ span, axis }: { span: Span; axis: Axis }) {
  return (
    <span className="track">
      {span.stretches.map((stretch, index) => {
        const from = axis.at(stretch.from)
        const to = axis.at(stretch.to ?? axis.end)
        return <span key={index} className="bar" data-kind={stretch.kind} data-outcome={span.outcome || undefined} data-open={stretch.to === null || undefined} style={{ left: `${from * 100}%`, width: `max(3px, ${(to - from) * 100}%)` }} />
      })}
    </span>
  )
}

function Details({ trace, span }: { trace: Trace; span: Span }) {
  const call = trace.calls.find((one) => one.id === span.id)
  const turn = trace.turns.find((one) => `turn-${one.number}` === span.id)
  if (call) return <CallFacts call={call} />
  if (turn) return <TurnFacts trace={trace} turn={turn} />
  const room = span.kind === "room" && trace.compactions[Number(span.id.replace("room-", ""))]
  if (room) return <RoomFacts room={room} />
  const wait = trace.waits[Number(span.id.replace("wait-", ""))]
  return <div className="span-details">{wait?.waiting_for.map((id) => <code key={id}>{trace.calls.find((one) => one.id === id)?.tool ?? id} </code>)}</div>
}

function RoomFacts({ room }: { room: Compaction }) {
  const say = useSay()
  const language = useLanguage()
  const { input_tokens: input = 0, output_tokens: output = 0 } = room.usage
  return (
    <div className="span-details">
      <p className="facts">
        <span>{say(room.summarised ? "chat.compacted" : room.results_dropped ? "chat.resultsLeftOut" : "chat.leftOut")}</span>
        <span>{say("traces.roomMade", { before: count(room.tokens_before, language), after: count(room.tokens_after, language) })}</span>
        {input + output > 0 && <span>{say("traces.inOut", { input: count(input, language), output: count(output, language) })}</span>}
      </p>
      {room.problem && <p className="problem">{room.problem.error}</p>}
    </div>
  )
}

function CallFacts({ call }: { call: CallSpan }) {
  const say = useSay()
  return (
    <div className="span-details">
      <p className="facts">
        {call.outcome && <span>{say(`outcome.${call.outcome}` as Word)}</span>}
        {call.rule && (
          <span>
            <b>{say("call.rule")}</b> {call.rule}
          </span>
        )}
        {call.decided_by && <span>{say("call.decidedBy", { by: call.decided_by, decision: say(call.outcome === "denied" ? "call.denied" : "call.approved") })}</span>}
        {call.attempts > 1 && <span>{say("call.attempt", { n: call.attempts })}</span>}
        {call.provider_ran_it && <span>{say("venue.provider")}</span>}
        <span className="faint">{call.id}</span>
      </p>
      <Json value={call.edited ?? call.arguments} />
      {call.error && <p className="problem">{call.error.error}</p>}
    </div>
  )
}

function TurnFacts({ trace, turn }: { trace: Trace; turn: TurnSpan }) {
  const say = useSay()
  const language = useLanguage()
  const { input_tokens: input = 0, output_tokens: output = 0 } = turn.usage
  return (
    <div className="span-details">
      <p className="facts">
        <span>{turn.model}</span>
        <span>{say("traces.inOut", { input: count(input, language), output: count(output, language) })}</span>
        <span>{say("traces.offered", { n: turn.offered })}</span>
        {turn.finish && <span>{turn.finish}</span>}
      </p>
      {turn.problem && <p className="problem">{turn.problem.error}</p>}
      <KeptTurn conversation={trace.conversation} run={trace.run_id} turn={turn.number} />
    </div>
  )
}
