// The rows of a waterfall and its time axis, which maps a time of the trace to a position from 0 to 1. A call may wait for
// hours for a person; drawn to scale, nothing else would be visible, so a long wait is shortened to half of the active time.
// Pure.
import type { Trace } from "../wire/types"

export interface Axis {
  /** Return the position of a time, from 0 to 1. */
  at: (time: number) => number
  end: number
  shortened: boolean
}

export function buildAxis(trace: Trace, now: number): Axis {
  const start = trace.queued_at
  const end = trace.ended_at ?? Math.max(trace.last_at, now)
  const waits = trace.waits.map((wait) => [wait.started_at, wait.ended_at ?? end] as const)
  const active = end - start - waits.reduce((sum, [from, to]) => sum + (to - from), 0)
  const cuts = waits.filter(([from, to]) => to - from > active / 2 && active > 0).map(([from, to]) => ({ from, to, removed: to - from - active / 2 }))
  const measure = (time: number) => time - start - cuts.reduce((sum, cut) => sum + cut.removed * Math.min(1, Math.max(0, (time - cut.from) / (cut.to - cut.from))), 0)
  const length = measure(end)
  return { at: (time) => (length > 0 ? measure(time) / length : 0), end, shortened: cuts.length > 0 }
}

/** A stretch of a bar in one colour; it is open while `to` is null. */
export interface Segment {
  from: number
  to: number | null
  kind: "turn" | "work" | "asking" | "wait"
}

export interface Span {
  id: string
  label: string
  kind: "turn" | "call" | "wait" | "compaction"
  /** The span of the program that makes the call; empty for any other span. */
  parent?: string
  /** The line of the program that makes the call. */
  line?: number
  segments: Segment[]
  tookMs: number | null
  outcome: string
}

/**
 * Return the rows of a waterfall in the order in which they began. Those of the same moment keep the order turn, call, wait,
 * compaction: the microseconds that are added below break the tie. The calls of a program follow it.
 */
export function buildSpans(trace: Trace, labels: { turn: (number: number) => string; wait: string; compaction: string }): Span[] {
  const turns: (Span & { at: number })[] = trace.turns.map((turn, index) => ({
    id: `turn-${turn.number}`,
    at: turn.started_at,
    label: labels.turn(index + 1),
    kind: "turn",
    segments: [{ from: turn.started_at, to: turn.ended_at, kind: "turn" }],
    tookMs: turn.ended_at === null ? null : (turn.ended_at - turn.started_at) * 1000,
    outcome: turn.problem ? "error" : (turn.finish ?? ""),
  }))
  const calls: (Span & { at: number })[] = trace.calls.map((call) => ({
    id: call.id,
    at: call.requested_at + 1e-6,
    label: call.tool,
    kind: "call",
    parent: call.parent,
    line: call.line,
    segments: trace.calls.some(({ parent }) => parent === call.id) ? splitProgram(call, trace.waits) : splitCall(call),
    tookMs: call.duration_ms,
    outcome: call.outcome ?? "",
  }))
  const waits: (Span & { at: number })[] = trace.waits.map((wait, number) => ({
    id: `wait-${number}`,
    at: wait.started_at + 2e-6,
    label: labels.wait,
    kind: "wait",
    segments: [{ from: wait.started_at, to: wait.ended_at, kind: "wait" }],
    tookMs: wait.ended_at === null ? null : (wait.ended_at - wait.started_at) * 1000,
    outcome: "",
  }))
  const compactions: (Span & { at: number })[] = trace.compactions.map((compaction, number) => ({
    id: `compaction-${number}`,
    at: compaction.started_at + 3e-6,
    label: labels.compaction,
    kind: "compaction",
    segments: [{ from: compaction.started_at, to: compaction.at, kind: compaction.summarised || compaction.problem ? "turn" : "wait" }],
    tookMs: (compaction.at - compaction.started_at) * 1000,
    outcome: compaction.problem ? "error" : "",
  }))
  const spans = [...turns, ...calls, ...waits, ...compactions].sort((first, second) => first.at - second.at)
  return spans.filter((span) => !span.parent).flatMap((span) => [span, ...spans.filter(({ parent }) => parent === span.id)])
}

/** Split a program into the segments in which it ran and those in which the run waited for somebody to decide its calls. */
function splitProgram(call: Trace["calls"][number], waits: Trace["waits"]): Segment[] {
  const segments: Segment[] = []
  let [last] = splitCall(call).slice(-1)
  for (const wait of waits) {
    if (!last || wait.started_at < last.from || (last.to !== null && wait.started_at > last.to)) continue
    segments.push({ ...last, to: wait.started_at }, { from: wait.started_at, to: wait.ended_at, kind: "asking" })
    last = wait.ended_at === null ? undefined : { ...last, from: wait.ended_at }
  }
  return last ? [...segments, last] : segments
}

/** Split a call into the segments in which it waited for a person or the application and those in which it ran. */
function splitCall(call: Trace["calls"][number]): Segment[] {
  const segments: Segment[] = []
  const { asked_at: asked, started_at: started, parked_at: parked, answered_at: answered, ended_at: ended } = call
  if (asked !== null) segments.push({ from: asked, to: call.decided_at ?? ended, kind: "asking" })
  if (started !== null) segments.push({ from: started, to: parked ?? ended, kind: "work" })
  if (parked !== null) segments.push({ from: parked, to: answered ?? ended, kind: "asking" })
  if (answered !== null) segments.push({ from: answered, to: ended, kind: "work" })
  if (!segments.length) segments.push({ from: call.requested_at, to: ended, kind: "work" })
  return segments
}
