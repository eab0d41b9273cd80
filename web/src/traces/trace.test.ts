import { describe, expect, test } from "vitest"
import { inWords } from "../locales/endingDetails"
import type { Trace } from "../wire/types"
import { sayIn } from "../locales"
import { axisOf, spansOf } from "./waterfallLayout"
import { costOf } from "./cost"

const WORDS = { turn: (number: number) => `Turn ${number}`, wait: "Waiting", room: "Making room" }
const turn = { number: 1, started_at: 30, ended_at: 40, offered: 0, model: "m", finish: "stop", problem: null, usage: { input_tokens: 100, output_tokens: 10 }, restarted: 0, search: "" } as const
const room = { started_at: 20, at: 30, tokens_before: 9000, tokens_after: 900, results_dropped: 0, summarised: true, problem: null, usage: { input_tokens: 1000 } }
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
  compactions: [room],
}

describe("a trace", () => {
  test("has a row for the room that was made before a turn", () => {
    const [first, second] = spansOf(trace, WORDS)
    expect([first?.label, first?.tookMs, second?.label]).toEqual(["Making room", 10_000, "Turn 1"])
    expect(axisOf(trace, 0).at(room.at)).toBe(0.5)
  })

  test("costs what its turns and its summaries took", () => {
    expect(costOf(trace, { m: { input: 1000, output: 5000, cached: null, currency: "USD" } }, "en")).toBe("$1.15")
    expect(costOf(trace, {}, "en")).toBe(null)
  })
})

test("a limit is told in words, anything else as it was told", () => {
  const say = sayIn("en")
  for (const name of ["turns_per_request", "turns_per_conversation", "run_seconds", "run_tokens", "length", "refused"]) expect(inWords(name, say)).toMatch(/ .* /)
  expect(inWords("model_error: no", say)).toBe("model_error: no")
})
