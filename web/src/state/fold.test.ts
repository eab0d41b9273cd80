import { describe, expect, test } from "vitest"
import type { Durable, Entry, Item } from "../wire/types"
import { fold, type StreamItem } from "./fold"
import { EMPTY_VIEW, hasUnjudgedCalls, listCalls, listWaitingCalls, type Turn, type ConversationView } from "./view"

const SETTINGS = { title: "Groceries" }
let seq = 0

function toEntry(event: Durable, run = "run_1"): Entry {
  return { conversation: "c", seq: ++seq, at: seq, event, run, correlation_id: "trace_1" }
}

function startRun(): Entry[] {
  seq = 0
  return [
    toEntry({ type: "conversation.opened", owner: { user: "ann" }, settings: SETTINGS }),
    toEntry({ type: "run.queued", caller: {}, input: [{ type: "user_message", id: "m1", at: 1, parts: [{ type: "text", text: "hi" }] }] }),
    toEntry({ type: "run.started", model: "demo", limits: {} }),
    toEntry({ type: "turn.started", number: 1, epoch: 1 }),
  ]
}

function requestCalls(...ids: string[]): Entry {
  const items = ids.map((id) => ({ type: "call" as const, id, at: 5, tool: "switch", arguments: { id } }))
  return toEntry({ type: "turn.ended", items, finish: "calls" })
}

function addItem(item: Item): Entry {
  return toEntry({ type: "message.added", item })
}

function addMessage(id: string): Entry {
  return addItem({ type: "user_message", id, at: 1, parts: [] })
}

function rewindTo(to: string): Entry {
  return toEntry({ type: "history.rewound", to, by: "local" })
}

function appendText(turn: number, offset: number, text: string): StreamItem {
  return { type: "text.appended", turn, offset, text }
}

function lastTurn(view: ConversationView): Turn {
  const turn = view.rows.findLast((row) => row.kind === "turn")
  if (!turn) throw new Error("no turn")
  return turn
}

function joinText(view: ConversationView): string {
  return lastTurn(view).parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("|")
}

describe("streamed text", () => {
  test("grows piece by piece, at offsets in bytes", () => {
    const view = fold(EMPTY_VIEW, [...startRun(), appendText(1, 0, "grüß"), appendText(1, 6, " dich")])
    expect(joinText(view)).toBe("grüß dich")
  })

  test("changes nothing when it arrives twice", () => {
    const once = fold(EMPTY_VIEW, [...startRun(), appendText(1, 0, "one "), appendText(1, 4, "two")])
    expect(joinText(fold(once, [appendText(1, 0, "one "), appendText(1, 4, "two")]))).toBe("one two")
  })

  test("of another turn is left out", () => {
    expect(lastTurn(fold(EMPTY_VIEW, [...startRun(), appendText(7, 0, "lost")])).parts).toEqual([])
  })

  test("is replaced by the text of the ended turn", () => {
    const before = startRun()
    const ended = toEntry({ type: "turn.ended", items: [{ type: "model_text", id: "t", at: 9, text: "whole" }], finish: "stop" })
    const view = fold(EMPTY_VIEW, [...before, appendText(1, 0, "wh"), ended])
    expect(joinText(view)).toBe("whole")
    expect(lastTurn(view).open).toBe(false)
  })

  test("is dropped when its turn starts again", () => {
    const view = fold(EMPTY_VIEW, [...startRun(), appendText(1, 0, "half an ans"), toEntry({ type: "turn.started", number: 1, epoch: 2 }), appendText(1, 0, "new")])
    expect(joinText(view)).toBe("new")
    expect(lastTurn(view).restarted).toBe(1)
    expect(view.rows.filter((row) => row.kind === "turn")).toHaveLength(1)
  })
})

describe("entries", () => {
  test("change nothing when they arrive twice", () => {
    const all = [...startRun(), requestCalls("a")]
    const once = fold(EMPTY_VIEW, all)
    expect(fold(once, all).rows).toEqual(once.rows)
  })

  test("give the same view in one batch or one by one", () => {
    const all: StreamItem[] = [...startRun(), appendText(1, 0, "x"), requestCalls("a", "b"), toEntry({ type: "call.judged", call_id: "a", verdict: "ask", rule: "r", expires_at: 9 })]
    expect(all.reduce((view, item) => fold(view, [item]), EMPTY_VIEW)).toEqual(fold(EMPTY_VIEW, all))
  })

  test("never change the view that they are applied to", () => {
    const before = fold(EMPTY_VIEW, startRun())
    const copy = structuredClone(before)
    fold(before, [appendText(1, 0, "x"), requestCalls("a")])
    expect(before).toEqual(copy)
  })

  test("set the title, the owner and the tools of the conversation", () => {
    const view = fold(EMPTY_VIEW, [...startRun(), toEntry({ type: "conversation.changed", settings: { title: "Shopping", tools: ["stock"] } })])
    expect([view.title, view.owner, view.tools]).toEqual(["Shopping", "ann", ["stock"]])
  })
})

test("a run waits for a budget until its next turn starts", () => {
  const started = startRun()
  const refused = [toEntry({ type: "turn.failed", problem: { error: "no room", error_type: "budget_exceeded" } }), toEntry({ type: "run.suspended", waiting_for: [], wake_at: 99, budget: "team" })]
  let view = fold(EMPTY_VIEW, [...started, ...refused])
  expect([view.run?.waiting, view.run?.budget, view.rows.length]).toEqual([true, "team", 1])
  view = fold(view, [toEntry({ type: "turn.started", number: 2, epoch: 1 })])
  expect([view.run?.waiting, view.run?.budget]).toEqual([false, ""])
})

describe("calls", () => {
  test("are unjudged until each of them has a verdict", () => {
    let view = fold(EMPTY_VIEW, [...startRun(), requestCalls("a", "b")])
    expect(hasUnjudgedCalls(view)).toBe(true)
    view = fold(view, [toEntry({ type: "call.judged", call_id: "a", verdict: "ask", rule: "r" })])
    expect(hasUnjudgedCalls(view)).toBe(true)
    expect(hasUnjudgedCalls(fold(view, [toEntry({ type: "call.judged", call_id: "b", verdict: "deny", rule: "r" })]))).toBe(false)
    const started = fold(view, [toEntry({ type: "call.started", call_id: "b", epoch: 1, rule: "r" })])
    expect([hasUnjudgedCalls(started), listCalls(lastTurn(started).parts)[1]]).toEqual([false, expect.objectContaining({ verdict: "allow", rule: "r" })])
  })

  const phases = (view: ConversationView) => lastTurn(view).parts.map((part) => (part.kind === "call" ? part.call.phase : part.kind))

  test("wait side by side and are decided in any order", () => {
    const before = [...startRun(), requestCalls("a", "b")]
    const asked = ["a", "b"].map((call_id) => toEntry({ type: "call.judged", call_id, verdict: "ask", rule: "tool", expires_at: 99 }))
    let view = fold(EMPTY_VIEW, [...before, ...asked, toEntry({ type: "run.suspended", waiting_for: ["a", "b"], wake_at: 99 })])
    expect(listWaitingCalls(view).map((call) => call.id)).toEqual(["a", "b"])
    expect(view.run?.waiting).toBe(true)
    view = fold(view, [toEntry({ type: "call.approved", call_id: "b", by: "ann", arguments: { id: "c" }, remember: "tool" })])
    expect(phases(view)).toEqual(["asking", "allowed"])
    expect(view.remembered).toEqual(["switch"])
    view = fold(view, [toEntry({ type: "call.denied", call_id: "a", by: "bob", reason: "no" })])
    const [first, second] = lastTurn(view).parts.map((part) => (part.kind === "call" ? part.call : null))
    expect([first?.decision, first?.decidedBy, second?.edited]).toEqual(["denied", "bob", { id: "c" }])
  })

  test("that need several approvals wait until the last of them", () => {
    const terms = { other: true, approvers: ["role:finance"], quorum: 2 }
    let view = fold(EMPTY_VIEW, [...startRun(), requestCalls("a")])
    view = fold(view, [toEntry({ type: "call.judged", call_id: "a", verdict: "ask", rule: "tool", expires_at: 99, terms })])
    view = fold(view, [toEntry({ type: "call.approved", call_id: "a", by: "ann", remaining: 1 })])
    expect([phases(view), listWaitingCalls(view)[0]?.approvedBy]).toEqual([["asking"], ["ann"]])
    view = fold(view, [toEntry({ type: "call.approved", call_id: "a", by: "eve" })])
    expect(phases(view)).toEqual(["allowed"])
  })

  test("report progress only while they run, and never backwards", () => {
    const running = [...startRun(), requestCalls("a"), toEntry({ type: "call.started", call_id: "a", epoch: 1 })]
    let view = fold(EMPTY_VIEW, [...running, { type: "call.progressed", call_id: "a", offset: 1, progress: 2, total: 5 }])
    view = fold(view, [{ type: "call.progressed", call_id: "a", offset: 0, progress: 1 }])
    const [part] = lastTurn(view).parts
    expect(part?.kind === "call" && part.call.progress?.done).toBe(2)
  })

  test("are closed by their result", () => {
    const result = { type: "result" as const, id: "a.result", at: 9, call_id: "a", tool: "switch", outcome: "ok" as const, content: "{}" }
    const view = fold(EMPTY_VIEW, [...startRun(), requestCalls("a"), toEntry({ type: "call.ended", result })])
    expect(phases(view)).toEqual(["closed"])
  })

  test("of the provider arrive with their results", () => {
    const items = [
      { type: "call" as const, id: "p", at: 5, tool: "web_search", arguments: {} },
      { type: "result" as const, id: "p.result", at: 5, call_id: "p", tool: "web_search", outcome: "ok" as const, content: "[]" },
      { type: "model_text" as const, id: "t", at: 5, text: "found" },
    ]
    const view = fold(EMPTY_VIEW, [...startRun(), toEntry({ type: "turn.ended", items, finish: "stop" })])
    const [call, answer] = lastTurn(view).parts
    expect(call?.kind === "call" && call.call.providerRanIt).toBe(true)
    expect(answer?.kind).toBe("text")
  })

  test("are drafts while the model writes them", () => {
    const draft = (offset: number, text: string): StreamItem => ({ type: "arguments.appended", turn: 1, call_id: "call_1", index: 0, tool: "switch", offset, text })
    const view = fold(EMPTY_VIEW, [...startRun(), draft(0, '{"a"'), draft(4, ": 1}"), draft(0, '{"a"')])
    expect(lastTurn(view).parts).toMatchObject([{ kind: "draft", tool: "switch", text: '{"a": 1}' }])
    expect(phases(fold(view, [requestCalls("a")]))).toEqual(["requested"])
  })
})

describe("compacted history", () => {
  test("adds a row for each compaction and removes nothing", () => {
    const before = startRun()
    const compactions = [
      toEntry({ type: "history.compacted", through: "m1", dropped: ["a.result"] }),
      toEntry({ type: "history.compacted", through: "m1", items: [], summarised: true }),
      toEntry({ type: "history.compacted", through: "m1" }),
    ]
    const view = fold(EMPTY_VIEW, [...before, ...compactions])
    expect(view.rows.flatMap((row) => (row.kind === "compacted" ? [row.how] : []))).toEqual(["results", "summarised", "left out"])
    expect(view.rows.some((row) => row.kind === "user")).toBe(true)
  })
})

describe("runs", () => {
  test("add no rows while they are queued", () => {
    const before = startRun()
    const next = toEntry({ type: "run.queued", caller: {}, input: [{ type: "user_message", id: "m2", at: 2, parts: [] }] }, "run_2")
    let view = fold(EMPTY_VIEW, [...before, next])
    expect(view.queue.map((queued) => queued.run)).toEqual(["run_2"])
    expect(view.rows.filter((row) => row.kind === "user")).toHaveLength(1)
    view = fold(view, [toEntry({ type: "run.ended", ending: "done" }), toEntry({ type: "run.started", model: "demo", limits: {} }, "run_2")])
    expect(view.queue).toEqual([])
    expect(view.rows.filter((row) => row.kind === "user")).toHaveLength(2)
  })

  test("add a row when they end at a limit", () => {
    const message = { type: "model_text" as const, id: "x", at: 9, text: "too many steps" }
    const view = fold(EMPTY_VIEW, [...startRun(), toEntry({ type: "run.ended", ending: "limit", detail: "10 turns", message })])
    expect(view.run).toBeNull()
    expect(view.rows.at(-1)).toMatchObject({ kind: "ending", ending: "limit", message: "too many steps", detail: "10 turns" })
  })
})

test("a removed message leaves the view, and so do its calls", () => {
  const view = fold(EMPTY_VIEW, [...startRun(), requestCalls("a"), toEntry({ type: "message.removed", ids: ["m1", "a"] })])
  expect(view.rows).toEqual([])
})

describe("a rewind", () => {
  const first = [...startRun(), toEntry({ type: "run.ended", ending: "done" })]

  test("removes the rows after an item, and all rows for none", () => {
    const added = { type: "message.added" as const, item: { type: "user_message" as const, id: "m2", at: 5, parts: [] } }
    const view = fold(EMPTY_VIEW, [...first, toEntry(added), toEntry({ type: "history.rewound", to: "m1", by: "local" })])
    expect(view.rows.map((row) => row.key)).toEqual(["m1"])
    expect(fold(view, [toEntry({ type: "history.rewound", to: "", by: "local" })]).rows).toEqual([])
  })

  test("returns to the rows of another branch", () => {
    const added = { type: "message.added" as const, item: { type: "user_message" as const, id: "m2", at: 5, parts: [] } }
    const entries = [...first, toEntry(added), toEntry({ type: "history.rewound", to: "", by: "local" })]
    const view = fold(EMPTY_VIEW, [...entries, toEntry({ type: "history.rewound", to: "m2", by: "local" })])
    expect(view.rows.map((row) => row.key)).toEqual(["m1", "turn-4", "m2"])
  })

  test("returns to a branch without the messages that were removed meanwhile", () => {
    seq = 0
    const entries = [addMessage("m1"), addMessage("m2"), rewindTo("m1"), addMessage("m3")]
    const view = fold(EMPTY_VIEW, [...entries, toEntry({ type: "message.removed", ids: ["m1"] }), rewindTo("m2")])
    expect(view.rows.map((row) => row.key)).toEqual(["m2"])
  })

  test("keeps every branch, however often the others are returned to", () => {
    seq = 0
    const entries = [addMessage("root"), addMessage("c"), rewindTo("root"), addMessage("a"), rewindTo("root"), addMessage("b")]
    const toggles = Array.from({ length: 101 }, (_, index) => rewindTo(index % 2 ? "b" : "a"))
    const view = fold(EMPTY_VIEW, [...entries, ...toggles])
    expect(view.leftRows.map((rows) => rows.map((row) => row.key))).toEqual([["root", "c"], ["root", "b"]])
    expect(fold(view, [rewindTo("c")]).rows.map((row) => row.key)).toEqual(["root", "c"])
  })

  test("keeps no branch whose rows another branch has", () => {
    seq = 0
    const entries = [addMessage("root"), addMessage("a"), addMessage("b"), rewindTo("a"), rewindTo("root"), addMessage("c"), rewindTo("")]
    const view = fold(EMPTY_VIEW, entries)
    expect(view.leftRows.map((rows) => rows.map((row) => row.key))).toEqual([["root", "a", "b"], ["root", "c"]])
  })
})

describe("items that were copied from another conversation", () => {
  const copyItems = () => {
    seq = 0
    const message = addMessage("m1")
    const calls = ["c1", "c2"].map((id) => addItem({ type: "call", id, at: 2, tool: "switch", arguments: {} }))
    const results = ["c2", "c1"].map((id) => addItem({ type: "result", id: `result-${id}`, at: 3, call_id: id, tool: "switch", outcome: "ok", content: "on" }))
    return [message, ...calls, ...results, addItem({ type: "model_text", id: "t1", at: 4, text: "Both are on." })]
  }

  test("close a call with its result, which comes in an entry of its own", () => {
    const turns = fold(EMPTY_VIEW, copyItems()).rows.filter((row) => row.kind === "turn")
    const calls = turns.flatMap((turn) => turn.parts).flatMap((part) => (part.kind === "call" ? [part.call] : []))
    expect(calls.map((call) => [call.phase, call.result?.id])).toEqual([["closed", "result-c1"], ["closed", "result-c2"]])
  })

  test("stay up to the last result of a turn after a rewind to it", () => {
    const view = fold(EMPTY_VIEW, [...copyItems(), rewindTo("result-c1")])
    expect(view.rows.map((row) => row.kind)).toEqual(["user", "turn"])
    expect(lastTurn(view).parts.map((part) => part.id)).toEqual(["c1", "c2"])
  })
})

describe("what a run cost", () => {
  const text: Item = { type: "model_text", id: "t", at: 9, text: "There." }
  const usage = { input_tokens: 100, output_tokens: 10 }

  test("is the sum of its turns, summaries and calls, at its last turn", () => {
    const view = fold(EMPTY_VIEW, [
      ...startRun(),
      toEntry({ type: "turn.ended", items: [{ type: "call", id: "a", at: 5, tool: "switch", arguments: {} }], finish: "calls", usage, cost: { micros: 5 } }),
      toEntry({ type: "call.ended", result: { type: "result", id: "r", at: 6, call_id: "a", tool: "switch", outcome: "ok", content: "on" }, cost: { micros: 70 } }),
      toEntry({ type: "history.compacted", through: "a", usage, cost: { micros: 300, estimated: true } }),
      toEntry({ type: "turn.started", number: 2, epoch: 1 }),
      toEntry({ type: "turn.ended", items: [text], finish: "stop", usage, cost: null }),
      toEntry({ type: "run.ended", ending: "done" }),
    ])
    const spending = { inputTokens: 300, outputTokens: 30, micros: { USD: 375 }, unknown: 1, estimated: 1 }
    expect([lastTurn(view).spending, view.spending]).toEqual([spending, spending])
  })

  test("stays in the sum of the conversation when its messages are left", () => {
    const first = [...startRun(), toEntry({ type: "turn.ended", items: [text], finish: "stop", usage, cost: { micros: 5 } }), toEntry({ type: "run.ended", ending: "done" })]
    const view = fold(EMPTY_VIEW, [...first, rewindTo("m1"), toEntry({ type: "message.removed", ids: ["m1"] })])
    expect([view.rows, view.spending.micros]).toEqual([[], { USD: 5 }])
  })

  test("is that of a summary as well that the end of the run cut off", () => {
    const view = fold(EMPTY_VIEW, [...startRun(), toEntry({ type: "run.ended", ending: "cancelled", cost: { micros: 9, estimated: true } })])
    const last = view.rows.at(-1)
    expect(last?.kind === "ending" && last.spending?.micros).toEqual({ USD: 9 })
  })

  test("is that of a failed turn as well, where the run ends", () => {
    const view = fold(EMPTY_VIEW, [
      ...startRun(),
      toEntry({ type: "turn.failed", problem: { error: "lost", error_type: "x" }, cost: { micros: 7, estimated: true } }),
      toEntry({ type: "run.ended", ending: "failed", detail: "lost" }),
    ])
    const last = view.rows.at(-1)
    expect(last?.kind === "ending" && last.spending).toEqual({ inputTokens: 0, outputTokens: 0, micros: { USD: 7 }, unknown: 0, estimated: 1 })
  })
})

describe("a program", () => {
  const toCall = (id: string) => ({ type: "call" as const, id, at: 5, tool: "refund", arguments: { order: id } })
  const started = () => [
    ...startRun(),
    requestCalls("p", "other"),
    toEntry({ type: "call.started", call_id: "p", epoch: 1 }),
    toEntry({ type: "calls.requested", parent: "p", seen: 0, calls: [toCall("p.0"), toCall("p.1")], lines: [3, 7], printed: "two " }),
  ]

  test("has its calls below it, with their lines", () => {
    const entries = started()
    const more = toEntry({ type: "calls.requested", parent: "p", seen: 0, calls: [toCall("p.2")], lines: [9], printed: "more" })
    const view = fold(EMPTY_VIEW, [...entries, more])
    const [program, ...calls] = listCalls(lastTurn(view).parts)
    expect([program?.phase, program?.printed, calls.map(({ id, line, parent }) => [id, line, parent])]).toEqual([
      "nested",
      "two more",
      [
        ["p.0", 3, "p"],
        ["p.1", 7, "p"],
        ["p.2", 9, "p"],
        ["other", undefined, undefined],
      ],
    ])
    expect(fold(view, entries).rows).toEqual(view.rows)
  })

  test("waits for the approvals of its calls, whose results are not part of the history", () => {
    const view = fold(EMPTY_VIEW, started())
    expect(hasUnjudgedCalls(view)).toBe(true)
    const asking = fold(view, [
      toEntry({ type: "call.judged", call_id: "p.0", verdict: "allow", rule: "r" }),
      toEntry({ type: "call.judged", call_id: "p.1", verdict: "ask", rule: "r" }),
    ])
    expect(listWaitingCalls(asking).map(({ id, line }) => [id, line])).toEqual([["p.1", 7]])
    const approved = toEntry({ type: "call.approved", call_id: "p.1", by: "ann", remember: "tool" })
    const ended = toEntry({ type: "call.ended", result: { type: "result", id: "r1", at: 9, call_id: "p.1", tool: "refund", outcome: "ok", content: "done" } })
    const done = fold(asking, [approved, ended])
    expect(listCalls(lastTurn(done).parts).find(({ id }) => id === "p.1")?.result?.content).toBe("done")
    expect([lastTurn(done).head, done.remembered]).toEqual(["other", ["refund"]])
    const finished = fold(done, [toEntry({ type: "call.ended", result: { type: "result", id: "r2", at: 9, call_id: "p", tool: "run_code", outcome: "ok", content: "{}" } })])
    expect(lastTurn(finished).head).toBe("r2")
  })
})
