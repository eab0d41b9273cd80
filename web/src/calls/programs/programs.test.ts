import { describe, expect, test } from "vitest"
import type { CallPhase, CallView } from "../../state/view"
import { formatProgramCall, getProgramText, listRunningLines, readProgramResult } from "./programs"

function toCall(phase: CallPhase, line: number): CallView {
  return { id: `p.${line}`, call: { type: "call", id: `p.${line}`, at: 0, tool: "refund", arguments: {} }, phase, requestedAt: 0, line, parent: "p" }
}

function toProgram(phase: CallPhase, ...calls: CallView[]): CallView {
  return { ...toCall(phase, 0), calls }
}

describe("a call of a program", () => {
  test("is written as the program makes it", () => {
    expect(formatProgramCall("refund", { order: "4711", amount: 2.5, now: true, note: null })).toBe("refund(order='4711', amount=2.5, now=True, note=None)")
    expect(formatProgramCall("add", { items: ["a", { b: 1 }] })).toBe("add(items=['a', {'b': 1}])")
    expect(formatProgramCall("list", {})).toBe("list()")
  })

  test("cannot look like another one: quotes and line ends in values are escaped", () => {
    expect(formatProgramCall("say", { text: "it's" })).toBe(`say(text="it's")`)
    expect(formatProgramCall("say", { text: `'a' "b"` })).toBe(`say(text='\\'a\\' "b"')`)
    expect(formatProgramCall("say", { text: "a\n')\\" })).toBe(String.raw`say(text="a\n')\\")`)
  })
})

describe("the running lines", () => {
  test("are those of the open calls, once each", () => {
    const program = toProgram("nested", toCall("closed", 2), toCall("asking", 7), toCall("running", 4), toCall("asking", 7))
    expect(listRunningLines(program)).toEqual([4, 7])
  })

  test("stay at the latest call while the program computes, and end with it", () => {
    const calls = [toCall("closed", 2), toCall("closed", 5)]
    expect(listRunningLines(toProgram("nested", ...calls))).toEqual([5])
    expect(listRunningLines(toProgram("closed", ...calls))).toEqual([])
    expect(listRunningLines(toProgram("running"))).toEqual([])
  })
})

test("only run_code with a text is a program", () => {
  expect(getProgramText({ tool: "run_code", arguments: { code: "1" } })).toBe("1")
  expect(getProgramText({ tool: "run_code", arguments: { code: 1 } })).toBeNull()
  expect(getProgramText({ tool: "run_code", arguments: null })).toBeNull()
  expect(getProgramText({ tool: "run_shell", arguments: { code: "1" } })).toBeNull()
})

test("a result that is not whole is not read", () => {
  expect(readProgramResult('{"value": [1], "printed": "hi"}')).toEqual({ value: [1], printed: "hi", note: "" })
  expect(readProgramResult('{"value": [1 … 3]}')).toBeNull()
})
