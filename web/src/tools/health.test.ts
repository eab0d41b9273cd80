import { expect, test } from "vitest"
import type { ToolFigures } from "../wire/types"
import { summarizeHealth } from "./health"

function figures(calls: number, errors: number, lastError: [number, string] | null = null): ToolFigures {
  return { tool: "t", calls, errors, p50_ms: 1, p95_ms: 1, times: [], last_at: calls, last_error: lastError?.[1] ?? "", last_error_at: lastError?.[0] ?? null }
}

test("the health of a tool is that of its calls", () => {
  const messages = [[], [figures(9, 0)], [figures(9, 1)], [figures(9, 5)]].map((tools) => summarizeHealth(tools).message)
  expect(messages).toEqual(["health.unused", "health.works", "health.failsSometimes", "health.fails"])
  expect(summarizeHealth([figures(9, 0)], { broken: true }).kind).toBe("bad")
  expect(summarizeHealth([], { own: true }).message).toBe("health.unusedByYou")
})

test("the health of a server sums up its tools and has the last error of all", () => {
  const health = summarizeHealth([figures(10, 1, [3, "early"]), figures(20, 0), figures(5, 2, [4, "late"])])
  expect([health.calls, health.errors, health.lastAt, health.lastError]).toEqual([35, 3, 20, "late"])
})
