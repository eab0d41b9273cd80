import { describe, expect, test } from "vitest"
import type { Durable, Entry } from "../wire/types"
import { fold, type Published } from "./fold"
import { EMPTY, isJudging, waitingCalls, type Turn, type View } from "./view"

const SETTINGS = { title: "Groceries" }
let seq = 0

function entry(event: Durable, run = "run_1"): Entry {
  return { conversation: "c", seq: ++seq, at: seq, event, run, correlation_id: "trace_1" }
}

function started(): Entry[] {
  seq = 0
  return [
    entry({ type: "conversation.opened", owner: { user: "ann" }, settings: SETTINGS }),
    entry({ type: "run.queued", caller: {}, input: [{ type: "user_message", id: "m1", at: 1, parts: [{ type: "text", text: "hi" }] }] }),
    entry({ type: "run.started", model: "demo", limits: {} }),
    entry({ type: "turn.started", number: 1, epoch: 1 }),
  ]
}

function called(...ids: string[]): Entry {
  const items = ids.map((id) => ({ type: "call" as const, id, at: 5, tool: "switch", arguments: { id } }))
  return entry({ type: "turn.ended", items, finish: "calls" })
}

function text(turn: number, offset: number, text: string): Published {
  return { type: "text.appended", turn, offset, text }
}

function lastTurn(view: View): Turn {
  const found = view.rows.findLast((row) => row.kind === "turn")
  if (!found) throw new Error("no turn")
  return found
}

function words(view: View): string {
  return lastTurn(view).parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("|")
}

describe("text", () => {
  test("grows piece by piece, counted in bytes", () => {
    const view = fold(EMPTY, [...started(), text(1, 0, "grüß"), text(1, 6, " dich")])
    expect(words(view)).toBe("grüß dich")
  })

  test("that comes twice changes nothing", () => {
    const once = fold(EMPTY, [...started(), text(1, 0, "one "), text(1, 4, "two")])
    expect(words(fold(once, [text(1, 0, "one "), text(1, 4, "two")]))).toBe("one two")
  })

  test("of another turn is not mixed in", () => {
    expect(lastTurn(fold(EMPTY, [...started(), text(7, 0, "lost")])).parts).toEqual([])
  })

  test("is what the turn says in the end", () => {
    const before = started()
    const ended = entry({ type: "turn.ended", items: [{ type: "model_text", id: "t", at: 9, text: "whole" }], finish: "stop" })
    const view = fold(EMPTY, [...before, text(1, 0, "wh"), ended])
    expect(words(view)).toBe("whole")
    expect(lastTurn(view).open).toBe(false)
  })

  test("is dropped when a turn starts again", () => {
    const view = fold(EMPTY, [...started(), text(1, 0, "half an ans"), entry({ type: "turn.started", number: 1, epoch: 2 }), text(1, 0, "new")])
    expect(words(view)).toBe("new")
    expect(lastTurn(view).restarted).toBe(1)
    expect(view.rows.filter((row) => row.kind === "turn")).toHaveLength(1)
  })
})

describe("entries", () => {
  test("that come twice change nothing", () => {
    const all = [...started(), called("a")]
    const once = fold(EMPTY, all)
    expect(fold(once, all).rows).toEqual(once.rows)
  })

  test("give the same whether they come at once or one by one", () => {
    const all: Published[] = [...started(), text(1, 0, "x"), called("a", "b"), entry({ type: "call.judged", call_id: "a", verdict: "ask", rule: "r", expires_at: 9 })]
    expect(all.reduce((view, item) => fold(view, [item]), EMPTY)).toEqual(fold(EMPTY, all))
  })

  test("never change the view they are applied to", () => {
    const before = fold(EMPTY, started())
    const kept = structuredClone(before)
    fold(before, [text(1, 0, "x"), called("a")])
    expect(before).toEqual(kept)
  })

  test("name the conversation and its owner", () => {
    const view = fold(EMPTY, [...started(), entry({ type: "conversation.changed", settings: { title: "Shopping", tools: ["stock"] } })])
    expect([view.title, view.owner, view.tools]).toEqual(["Shopping", "ann", ["stock"]])
  })
})

describe("calls", () => {
  test("how many ask is known only when all of them are judged", () => {
    let view = fold(EMPTY, [...started(), called("a", "b")])
    expect(isJudging(view)).toBe(true)
    view = fold(view, [entry({ type: "call.judged", call_id: "a", verdict: "ask", rule: "r" })])
    expect(isJudging(view)).toBe(true)
    expect(isJudging(fold(view, [entry({ type: "call.judged", call_id: "b", verdict: "deny", rule: "r" })]))).toBe(false)
  })

  const phases = (view: View) => lastTurn(view).parts.map((part) => (part.kind === "call" ? part.call.phase : part.kind))

  test("wait side by side and are decided in any order", () => {
    const before = [...started(), called("a", "b")]
    const asked = ["a", "b"].map((call_id) => entry({ type: "call.judged", call_id, verdict: "ask", rule: "tool", expires_at: 99 }))
    let view = fold(EMPTY, [...before, ...asked, entry({ type: "run.suspended", waiting_for: ["a", "b"], wake_at: 99 })])
    expect(waitingCalls(view).map((call) => call.id)).toEqual(["a", "b"])
    expect(view.run?.waiting).toBe(true)
    view = fold(view, [entry({ type: "call.approved", call_id: "b", by: "ann", arguments: { id: "c" }, remember: "tool" })])
    expect(phases(view)).toEqual(["asking", "allowed"])
    expect(view.remembered).toEqual(["switch"])
    view = fold(view, [entry({ type: "call.denied", call_id: "a", by: "bob", reason: "no" })])
    const [first, second] = lastTurn(view).parts.map((part) => (part.kind === "call" ? part.call : null))
    expect([first?.decision, first?.decidedBy, second?.edited]).toEqual(["denied", "bob", { id: "c" }])
  })

  test("report progress only while they run, and never backwards", () => {
    const running = [...started(), called("a"), entry({ type: "call.started", call_id: "a", epoch: 1 })]
    let view = fold(EMPTY, [...running, { type: "call.progressed", call_id: "a", offset: 1, progress: 2, total: 5 }])
    view = fold(view, [{ type: "call.progressed", call_id: "a", offset: 0, progress: 1 }])
    const [part] = lastTurn(view).parts
    expect(part?.kind === "call" && part.call.progress?.done).toBe(2)
  })

  test("end once, with what came of them", () => {
    const result = { type: "result" as const, id: "a.result", at: 9, call_id: "a", tool: "switch", outcome: "ok" as const, content: "{}" }
    const view = fold(EMPTY, [...started(), called("a"), entry({ type: "call.ended", result })])
    expect(phases(view)).toEqual(["closed"])
  })

  test("that the provider ran come with their results", () => {
    const items = [
      { type: "call" as const, id: "p", at: 5, tool: "web_search", arguments: {} },
      { type: "result" as const, id: "p.result", at: 5, call_id: "p", tool: "web_search", outcome: "ok" as const, content: "[]" },
      { type: "model_text" as const, id: "t", at: 5, text: "found" },
    ]
    const view = fold(EMPTY, [...started(), entry({ type: "turn.ended", items, finish: "stop" })])
    const [call, said] = lastTurn(view).parts
    expect(call?.kind === "call" && call.call.providerRanIt).toBe(true)
    expect(said?.kind).toBe("text")
  })

  test("are drafts while the model writes them", () => {
    const draft = (offset: number, text: string): Published => ({ type: "arguments.appended", turn: 1, index: 0, tool: "switch", offset, text })
    const view = fold(EMPTY, [...started(), draft(0, '{"a"'), draft(4, ": 1}"), draft(0, '{"a"')])
    expect(lastTurn(view).parts).toMatchObject([{ kind: "draft", tool: "switch", text: '{"a": 1}' }])
    expect(phases(fold(view, [called("a")]))).toEqual(["requested"])
  })
})

describe("history that made room", () => {
  test("is said quietly, and nothing leaves the page", () => {
    const before = started()
    const made = [
      entry({ type: "history.compacted", through: "m1", dropped: ["a.result"] }),
      entry({ type: "history.compacted", through: "m1", items: [], summarised: true }),
      entry({ type: "history.compacted", through: "m1" }),
    ]
    const view = fold(EMPTY, [...before, ...made])
    expect(view.rows.flatMap((row) => (row.kind === "compacted" ? [row.how] : []))).toEqual(["results", "summarised", "left out"])
    expect(view.rows.some((row) => row.kind === "said")).toBe(true)
  })
})

describe("runs", () => {
  test("that stand in line are not among the messages yet", () => {
    const before = started()
    const next = entry({ type: "run.queued", caller: {}, input: [{ type: "user_message", id: "m2", at: 2, parts: [] }] }, "run_2")
    let view = fold(EMPTY, [...before, next])
    expect(view.queue.map((one) => one.run)).toEqual(["run_2"])
    expect(view.rows.filter((row) => row.kind === "said")).toHaveLength(1)
    view = fold(view, [entry({ type: "run.ended", ending: "done" }), entry({ type: "run.started", model: "demo", limits: {} }, "run_2")])
    expect(view.queue).toEqual([])
    expect(view.rows.filter((row) => row.kind === "said")).toHaveLength(2)
  })

  test("that end otherwise than done say so", () => {
    const message = { type: "model_text" as const, id: "x", at: 9, text: "too many steps" }
    const view = fold(EMPTY, [...started(), entry({ type: "run.ended", ending: "limit", detail: "10 turns", message })])
    expect(view.run).toBeNull()
    expect(view.rows.at(-1)).toMatchObject({ kind: "ending", ending: "limit", message: "too many steps", detail: "10 turns" })
  })
})

test("a message that is removed is no longer shown, nor are the calls that went with it", () => {
  const view = fold(EMPTY, [...started(), called("a"), entry({ type: "message.removed", ids: ["m1", "a"] })])
  expect(view.rows).toEqual([])
})
