import { expect, test } from "vitest"
import type { Durable, Entry } from "../wire/types"
import { findContinuation, findHead, listVersions } from "./branches"
import { fold } from "./fold"
import { EMPTY_VIEW } from "./view"

let seq = 0

function toEntry(event: Durable): Entry {
  return { conversation: "c", seq: ++seq, at: seq, event, run: "run_1", correlation_id: "trace_1" }
}

function addMessage(id: string): Entry {
  return toEntry({ type: "message.added", item: { type: "user_message", id, at: seq + 1, parts: [] } })
}

function rewindTo(to: string): Entry {
  return toEntry({ type: "history.rewound", to, by: "local" })
}

test("versions of a row are told oldest first, with the end of each branch", () => {
  seq = 0
  const view = fold(EMPTY_VIEW, [addMessage("root"), addMessage("a"), addMessage("a2"), rewindTo("root"), addMessage("b"), rewindTo("root"), addMessage("c")])
  expect(listVersions(view)).toEqual(new Map([["c", { heads: ["a2", "b", "c"], current: 2 }]]))
  const back = fold(view, [rewindTo("a2")])
  expect(listVersions(back)).toEqual(new Map([["a", { heads: ["a2", "b", "c"], current: 0 }]]))
})

test("a conversation that ends before its branches leads on to the one left last", () => {
  seq = 0
  const view = fold(EMPTY_VIEW, [addMessage("root"), addMessage("a"), rewindTo("root"), addMessage("b"), rewindTo("root")])
  expect(findContinuation(view)).toBe("b")
  expect(findContinuation(fold(view, [rewindTo("b")]))).toBe("")
})

test("a turn ends with the result that came last", () => {
  seq = 0
  const calls = ["x", "y"].map((id) => ({ type: "call" as const, id, at: 1, tool: "t", arguments: {} }))
  const result = (call_id: string) => ({ type: "result" as const, id: `${call_id}.result`, at: 2, call_id, tool: "t", outcome: "ok" as const, content: "" })
  const view = fold(EMPTY_VIEW, [
    toEntry({ type: "turn.started", number: 1, epoch: 1 }),
    toEntry({ type: "turn.ended", items: calls, finish: "calls" }),
    toEntry({ type: "call.ended", result: result("y") }),
    toEntry({ type: "call.ended", result: result("x") }),
  ])
  expect(findHead(view.rows)).toBe("x.result")
})
