import { describe, expect, test } from "vitest"
import { describeEndingDetail } from "../locales/endingDetails"
import type { Trace } from "../wire/types"
import { createTranslate } from "../locales"
import { buildAxis, buildSpans } from "./waterfallLayout"
import { toTraceSpending } from "../state/spending"
import { describeCost } from "../usage/describeSpending"

const LABELS = { turn: (number: number) => `Turn ${number}`, wait: "Waiting", compaction: "Making room" }
const turn = { number: 1, started_at: 30, ended_at: 40, offered: 0, model: "m", finish: "stop", problem: null, usage: { input_tokens: 100, output_tokens: 10 }, cost: { micros: 150_000 }, restarted: 0, search: "" } as const
const compaction = { started_at: 20, at: 30, tokens_before: 9000, tokens_after: 900, results_dropped: 0, summarised: true, problem: null, usage: { input_tokens: 1000 }, cost: { micros: 1_000_000 } }
const trace: Trace = {
  run_id: "run_1",
  conversation: "c",
  correlation_id: "t",
  user: "ann",
  status: "ended",
  queued_at: 20,
  last_at: 40,
  model: "m",
  ending: "done",
  detail: "",
  started_at: 20,
  ended_at: 40,
  usage: {},
  turns: [turn],
  calls: [],
  waits: [],
  compactions: [compaction],
  cost: null,
}

describe("a trace", () => {
  test("has a row for the compaction before a turn", () => {
    const [first, second] = buildSpans(trace, LABELS)
    expect([first?.label, first?.tookMs, second?.label]).toEqual(["Making room", 10_000, "Turn 1"])
    expect(buildAxis(trace, 0).at(compaction.at)).toBe(0.5)
  })

  test("has the calls of a program below it, and shows its waits as such", () => {
    const times: Omit<Trace["calls"][number], "id" | "tool" | "requested_at" | "started_at" | "ended_at" | "parent" | "line"> = { asked_at: null, decided_at: null, parked_at: null, answered_at: null, edited: null, judged_at: null, verdict: null, decided_by: "", decisions: [], parked_for: null, answered_by: "", cost: null, error: null, rule: "", outcome: "ok", provider_ran_it: false, attempts: 1, duration_ms: 1, turn: 1, arguments: {} }
    const program = { ...times, id: "p", tool: "run_code", requested_at: 21, started_at: 21, ended_at: 29, parent: "", line: 0 }
    const first = { ...times, id: "p.0", tool: "read", requested_at: 22, started_at: 22, ended_at: 23, parent: "p", line: 1 }
    const other = { ...times, id: "q", tool: "list", requested_at: 21.5, started_at: 21.5, ended_at: 22, parent: "", line: 0 }
    const waits = [{ started_at: 24, ended_at: 27, waiting_for: ["p.1"], budget: "" }]
    const spans = buildSpans({ ...trace, compactions: [], calls: [program, other, first], waits }, LABELS)
    expect(spans.map(({ label, line }) => [label, line || 0])).toEqual([
      ["run_code", 0],
      ["read", 1],
      ["list", 0],
      ["Waiting", 0],
      ["Turn 1", 0],
    ])
    expect(spans[0]?.segments).toEqual([
      { from: 21, to: 24, kind: "work" },
      { from: 24, to: 27, kind: "asking" },
      { from: 27, to: 29, kind: "work" },
    ])
  })

  test("costs the sum of its turns and its summaries", () => {
    expect(describeCost(toTraceSpending(trace), "en")).toBe("$1.15")
    expect(describeCost(toTraceSpending({ ...trace, cost: { micros: 1_000_000 } }), "en")).toBe("$2.15")
    expect(describeCost(toTraceSpending({ ...trace, compactions: [{ ...compaction, cost: null }] }), "en")).toBe("$0.15 + unknown")
  })

  test("does not call a cost unknown where no model was asked, or has failed before it cost anything", () => {
    const failed = { ...turn, finish: null, cost: null, usage: {} }
    const dropped = { ...compaction, usage: {}, cost: null }
    expect(describeCost(toTraceSpending({ ...trace, turns: [failed], compactions: [dropped] }), "en")).toBe("")
    expect(describeCost(toTraceSpending({ ...trace, turns: [{ ...turn, cost: null }], compactions: [] }), "en")).toBe("cost unknown")
  })
})

test("a limit and a type of error have a sentence of their own, any other detail is shown as it is", () => {
  const t = createTranslate("en")
  for (const name of ["turns_per_request", "turns_per_conversation", "run_seconds", "run_tokens", "length", "refused"]) expect(describeEndingDetail(name, t)).toMatch(/ .* /)
  expect(describeEndingDetail("model_error: no: it is", t)).toBe("The model reports a problem: no: it is")
  expect(describeEndingDetail("stopped by ann: no", t)).toBe("stopped by ann: no")
})
