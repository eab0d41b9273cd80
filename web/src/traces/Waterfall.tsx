// A run over time: a bar for each turn, call, wait and compaction. A bar opens to show details.
import { useMemo, useState } from "react"
import { JsonView } from "../components/JsonView"
import { formatCount, formatDuration } from "../app/format"
import type { CallSpan, Compaction, Trace, TurnSpan } from "../wire/types"
import { useLanguage, useTranslate, type MessageKey } from "../locales"
import { RecordedTurn } from "./RecordedTurn"
import { buildAxis, buildSpans, type Axis, type Span } from "./waterfallLayout"
import { Decisions } from "../calls/Decisions"
import { getProgramText } from "../calls/programs/programs"
import { ProgramText } from "../calls/programs/ProgramText"
import { toCompactionSpending, toOptionalSpending, toTurnSpending, type Spending } from "../state/spending"
import { describeCost } from "../usage/describeSpending"

const LEGEND = [
  ["turn", "traces.thinking"],
  ["work", "traces.working"],
  ["asking", "traces.asking"],
] as const

export function Waterfall({ trace }: { trace: Trace }) {
  const t = useTranslate()
  const axis = useMemo(() => buildAxis(trace, Date.now() / 1000), [trace])
  const spans = useMemo(() => buildSpans(trace, { turn: (n) => t("traces.turn", { n }), wait: t("traces.wait"), compaction: t("traces.compaction") }), [trace, t])
  const [open, setOpen] = useState("")
  return (
    <div className="waterfall">
      <ul>
        {spans.map((span) => (
          <li key={span.id} data-kind={span.kind} data-nested={span.parent ? true : undefined}>
            <button className="span" aria-expanded={open === span.id} onClick={() => setOpen(open === span.id ? "" : span.id)}>
              <span className="span-label">
                {span.kind === "call" ? <code>{span.label}</code> : span.label}
                {span.line ? <small> {t("program.line", { n: span.line })}</small> : null}
              </span>
              <Bars span={span} axis={axis} />
              <span className="span-took">{span.tookMs !== null ? formatDuration(span.tookMs) : span.outcome ? "" : "…"}</span>
            </button>
            {open === span.id && <Details trace={trace} span={span} />}
          </li>
        ))}
      </ul>
      <p className="legend">
        {LEGEND.map(([kind, word]) => (
          <span key={kind}>
            <i data-kind={kind} /> {t(word)}
          </span>
        ))}
        {axis.shortened && <em>{t("traces.shortened")}</em>}
      </p>
    </div>
  )
}

function Bars({ span, axis }: { span: Span; axis: Axis }) {
  return (
    <span className="track">
      {span.segments.map((segment, index) => {
        const from = axis.at(segment.from)
        const to = axis.at(segment.to ?? axis.end)
        return <span key={index} className="bar" data-kind={segment.kind} data-outcome={span.outcome || undefined} data-open={segment.to === null || undefined} style={{ left: `${from * 100}%`, width: `max(3px, ${(to - from) * 100}%)` }} />
      })}
    </span>
  )
}

function Details({ trace, span }: { trace: Trace; span: Span }) {
  const t = useTranslate()
  const call = trace.calls.find(({ id }) => id === span.id)
  const turn = trace.turns.find(({ number }) => `turn-${number}` === span.id)
  if (call) return <CallFacts call={call} />
  if (turn) return <TurnFacts trace={trace} turn={turn} />
  const compaction = span.kind === "compaction" && trace.compactions[Number(span.id.replace("compaction-", ""))]
  if (compaction) return <CompactionFacts compaction={compaction} />
  const wait = trace.waits[Number(span.id.replace("wait-", ""))]
  if (wait?.budget) return <div className="span-details">{t("chat.waitingFor", { who: t("chat.budget", { name: wait.budget }) })}</div>
  return <div className="span-details">{wait?.waiting_for.map((id) => <code key={id}>{trace.calls.find((waiting) => waiting.id === id)?.tool ?? id} </code>)}</div>
}

function CompactionFacts({ compaction }: { compaction: Compaction }) {
  const t = useTranslate()
  const language = useLanguage()
  const { input_tokens: input = 0, output_tokens: output = 0 } = compaction.usage
  return (
    <div className="span-details">
      <p className="facts">
        <span>{t(compaction.summarised ? "chat.compacted" : compaction.results_dropped ? "chat.resultsDropped" : "chat.messagesDropped")}</span>
        <span>{t("traces.compacted", { before: formatCount(compaction.tokens_before, language), after: formatCount(compaction.tokens_after, language) })}</span>
        {input + output > 0 && <span>{t("traces.inOut", { input: formatCount(input, language), output: formatCount(output, language) })}</span>}
        <CostFact spending={toCompactionSpending(compaction.usage, compaction.cost)} />
      </p>
      {compaction.problem && <p className="problem">{compaction.problem.error}</p>}
    </div>
  )
}

function CostFact({ spending }: { spending: Spending }) {
  const cost = describeCost(spending, useLanguage())
  return cost && <span>{cost}</span>
}

function CallFacts({ call }: { call: CallSpan }) {
  const t = useTranslate()
  const program = getProgramText({ tool: call.tool, arguments: call.edited ?? call.arguments })
  return (
    <div className="span-details">
      <p className="facts">
        {call.outcome && <span>{t(`outcome.${call.outcome}` as MessageKey)}</span>}
        {call.rule && (
          <span>
            <b>{t("call.rule")}</b> {call.rule}
          </span>
        )}
        {program === null && call.attempts > 1 && <span>{t("call.attempt", { n: call.attempts })}</span>}
        <CostFact spending={toOptionalSpending(call.cost)} />
        {call.provider_ran_it && <span>{t("venue.provider")}</span>}
        <span className="faint">{call.id}</span>
      </p>
      <Decisions decisions={call.decisions} />
      {program === null ? <JsonView value={call.edited ?? call.arguments} /> : <ProgramText text={program} />}
      {call.error && <p className="problem program-error">{call.error.error}</p>}
    </div>
  )
}

function TurnFacts({ trace, turn }: { trace: Trace; turn: TurnSpan }) {
  const t = useTranslate()
  const language = useLanguage()
  const { input_tokens: input = 0, output_tokens: output = 0 } = turn.usage
  return (
    <div className="span-details">
      <p className="facts">
        <span>{turn.model}</span>
        <span>{t("traces.inOut", { input: formatCount(input, language), output: formatCount(output, language) })}</span>
        <CostFact spending={toTurnSpending(turn)} />
        <span>{t("traces.offered", { n: turn.offered })}</span>
        {turn.finish && <span>{turn.finish}</span>}
      </p>
      {turn.problem && <p className="problem">{turn.problem.error}</p>}
      <RecordedTurn conversation={trace.conversation} run={trace.run_id} turn={turn.number} />
    </div>
  )
}
