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
}

describe("a trace", () => {
  test("has a row for the compaction before a turn", () => {
    const [first, second] = buildSpans(trace, LABELS)
    expect([first?.label, first?.tookMs, second?.label]).toEqual(["Making room", 10_000, "Turn 1"])
    expect(buildAxis(trace, 0).at(compaction.at)).toBe(0.5)
  })

  test("costs the sum of its turns and its summaries", () => {
    expect(describeCost(toTraceSpending(trace), "en")).toBe("$1.15")
    expect(describeCost(toTraceSpending({ ...trace, compactions: [{ ...compaction, cost: null }] }), "en")).toBe("$0.15 + unknown")
  })

  test("does not call a cost unknown where no model was asked, or has failed before it cost anything", () => {
    const failed = { ...turn, finish: null, cost: null, usage: {} }
    const dropped = { ...compaction, usage: {}, cost: null }
    expect(describeCost(toTraceSpending({ ...trace, turns: [failed], compactions: [dropped] }), "en")).toBe("")
    expect(describeCost(toTraceSpending({ ...trace, turns: [{ ...turn, cost: null }], compactions: [] }), "en")).toBe("cost unknown")
  })
})

test("a limit has a sentence of its own, any other detail is shown as it is", () => {
  const t = createTranslate("en")
  for (const name of ["turns_per_request", "turns_per_conversation", "run_seconds", "run_tokens", "length", "refused"]) expect(describeEndingDetail(name, t)).toMatch(/ .* /)
  expect(describeEndingDetail("model_error: no", t)).toBe("model_error: no")
})
