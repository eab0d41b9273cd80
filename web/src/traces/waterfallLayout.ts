// Where a time lies between the beginning and the end of a trace, from 0 to 1. Long waits are cut to half of all the rest,
// or nothing else would be seen. Pure.
import type { Trace } from "../wire/types"

export interface Axis {
  at: (time: number) => number
  end: number
  shortened: boolean
}

export function axisOf(trace: Trace, now: number): Axis {
  const begin = trace.queued_at
  const end = trace.ended_at ?? Math.max(trace.last_at, now)
  const waits = trace.waits.map((wait) => [wait.started_at, wait.ended_at ?? end] as const)
  const active = end - begin - waits.reduce((sum, [from, to]) => sum + (to - from), 0)
  const cuts = waits.filter(([from, to]) => to - from > active / 2 && active > 0).map(([from, to]) => ({ from, to, lost: to - from - active / 2 }))
  const drawn = (time: number) => time - begin - cuts.reduce((sum, cut) => sum + cut.lost * Math.min(1, Math.max(0, (time - cut.from) / (cut.to - cut.from))), 0)
  const length = drawn(end)
  return { at: (time) => (length > 0 ? drawn(time) / length : 0), end, shortened: cuts.length > 0 }
}

export interface Stretch {
  from: number
  to: number | null
  kind: "turn" | "work" | "asking" | "wait"
}

export interface Span {
  id: string
  label: string
  kind: "turn" | "call" | "wait" | "room"
  stretches: Stretch[]
  tookMs: number | null
  outcome: string
}

/** The rows of a waterfall: each turn, then its calls, then the waits and the room made that followed, in the order they began. */
export function spansOf(trace: Trace, words: { turn: (number: number) => string; wait: string; room: string }): Span[] {
  const turns: (Span & { at: number })[] = trace.turns.map((turn, index) => ({
    id: `turn-${turn.number}`,
    at: turn.started_at,
    label: words.turn(index + 1),
    kind: "turn",
    stretches: [{ from: turn.started_at, to: turn.ended_at, kind: "turn" }],
    tookMs: turn.ended_at === null ? null : (turn.ended_at - turn.started_at) * 1000,
    outcome: turn.problem ? "error" : (turn.finish ?? ""),
  }))
  const calls: (Span & { at: number })[] = trace.calls.map((call) => ({
    id: call.id,
    at: call.requested_at + 1e-6,
    label: call.tool,
    kind: "call",
    stretches: callStretches(call),
    tookMs: call.duration_ms,
    outcome: call.outcome ?? "",
  }))
  const waits: (Span & { at: number })[] = trace.waits.map((wait, number) => ({
    id: `wait-${number}`,
    at: wait.started_at + 2e-6,
    label: words.wait,
    kind: "wait",
    stretches: [{ from: wait.started_at, to: wait.ended_at, kind: "wait" }],
    tookMs: wait.ended_at === null ? null : (wait.ended_at - wait.started_at) * 1000,
    outcome: "",
  }))
  const rooms: (Span & { at: number })[] = trace.compactions.map((room, number) => ({
    id: `room-${number}`,
    at: room.started_at + 3e-6,
    label: words.room,
    kind: "room",
    stretches: [{ from: room.started_at, to: room.at, kind: room.summarised || room.problem ? "turn" : "wait" }],
    tookMs: (room.at - room.started_at) * 1000,
    outcome: room.problem ? "error" : "",
  }))
  return [...turns, ...calls, ...waits, ...rooms].sort((one, other) => one.at - other.at)
}

function callStretches(call: Trace["calls"][number]): Stretch[] {
  const stretches: Stretch[] = []
  const { asked_at: asked, started_at: started, parked_at: parked, answered_at: answered, ended_at: ended } = call
  if (asked !== null) stretches.push({ from: asked, to: call.decided_at ?? ended, kind: "asking" })
  if (started !== null) stretches.push({ from: started, to: parked ?? ended, kind: "work" })
  if (parked !== null) stretches.push({ from: parked, to: answered ?? ended, kind: "asking" })
  if (answered !== null) stretches.push({ from: answered, to: ended, kind: "work" })
  if (!stretches.length) stretches.push({ from: call.requested_at, to: ended, kind: "work" })
  return stretches
}
