import { expect, test } from "vitest"
import type { ToolFigures } from "../wire/types"
import { healthOf } from "./health"

function figures(calls: number, errors: number, lastError: [number, string] | null = null): ToolFigures {
  return { tool: "t", calls, errors, p50_ms: 1, p95_ms: 1, times: [], last_at: calls, last_error: lastError?.[1] ?? "", last_error_at: lastError?.[0] ?? null }
}

test("a tool is as well as its calls", () => {
  const words = [[], [figures(9, 0)], [figures(9, 1)], [figures(9, 5)]].map((one) => healthOf(one).word)
  expect(words).toEqual(["health.unused", "health.works", "health.failsSometimes", "health.fails"])
  expect(healthOf([figures(9, 0)], true).kind).toBe("bad")
})

test("a server is as well as its tools together, and tells what went wrong last", () => {
  const health = healthOf([figures(10, 1, [3, "early"]), figures(20, 0), figures(5, 2, [4, "late"])])
  expect([health.calls, health.errors, health.lastAt, health.lastError]).toEqual([35, 3, 20, "late"])
})
