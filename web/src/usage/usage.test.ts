import { describe, expect, test } from "vitest"
import { listNearBudgets } from "../state/budgets"
import { NO_SPENDING, toModelSpending } from "../state/spending"
import type { BudgetView, UsageLine } from "../wire/types"
import { describeCost, describeNearBudget, describeScope, formatMoney, formatPeriod } from "./describeSpending"
import { buildRows, buildUsagePath, listDefaultDays, sumRows } from "./usageRows"

const LINE: UsageLine = { currency: "USD", cost: 0.5, cost_micros: 500_000, turns: 2, input_tokens: 100, cached_tokens: 0, cache_writes_5m: 0, cache_writes_1h: 0, output_tokens: 10, reasoning_tokens: 0, uses: 0, unknown_costs: 0, estimated_costs: 0 }
const UNKNOWN: UsageLine = { ...LINE, currency: null, cost: null, cost_micros: null, turns: 1, unknown_costs: 1 }
const BUDGET: BudgetView = { name: "team", scope: "tenant", scope_name: "acme", period: "2027-01", currency: "USD", amount: 10, spent: 8, reserved: 0.5, left: 1.5, overdraft: 0, applies: true,
  on_reach: "refuse",
  waiting: 0,
  last_reserved: 0.5 }

describe("a cost", () => {
  test("is never zero because it is unknown", () => {
    expect(describeCost(toModelSpending({ input_tokens: 5 }, null), "en")).toBe("cost unknown")
    expect(describeCost(toModelSpending({}, { micros: 0 }), "en")).toBe("$0.00")
    expect(describeCost(NO_SPENDING, "en")).toBe("")
  })

  test("says which part is unknown or estimated", () => {
    expect(describeCost(toModelSpending({}, { micros: 255, estimated: true }), "en")).toBe("$0.000255 (estimated)")
    expect(describeCost(toModelSpending({}, { micros: 2_000_000, unpriced_tools: ["search"] }), "de")).toBe("2,00\u00a0$ + Unbekanntes")
  })

  test("is as exact as it is small", () => {
    expect([0.0123456, 0.1, 12.345, 1234].map((amount) => formatMoney(amount, "EUR", "en"))).toEqual(["€0.0123", "€0.10", "€12.35", "€1,234.00"])
  })
})

describe("a table of usage", () => {
  const rows = buildRows([{ ...LINE, model: "a" }, { ...UNKNOWN, model: "a" }, { ...LINE, model: "b", currency: "EUR", cost_micros: 900_000 }], "model")

  test("has one row for all currencies and the unknown costs of a name, the dearest first", () => {
    expect(rows.map((row) => [row.name, row.turns, describeCost(row.spending, "en")])).toEqual([
      ["b", 2, "€0.90"],
      ["a", 3, "$0.50 + unknown"],
    ])
  })

  test("adds up, each currency by itself", () => {
    const { turns, spending } = sumRows(rows)
    expect([turns, spending.inputTokens, describeCost(spending, "en")]).toEqual([5, 300, "€0.90 + $0.50 + unknown"])
  })

  test("tells people of the same name apart by their tenants", () => {
    const lines = ["", "acme", "other"].map((tenant) => ({ ...LINE, user: "ann", tenant }))
    expect(buildRows(lines, "user").map((row) => row.name)).toEqual(["ann", "ann · acme", "ann · other"])
    expect(buildRows([{ ...LINE, user: "ann" }], "user").map((row) => row.name)).toEqual(["ann"])
  })

  test("begins with the latest day", () => {
    const days = ["2027-01-02", "2027-01-10"].map((day) => ({ ...LINE, day }))
    expect(buildRows(days, "day").map((row) => row.name)).toEqual(["2027-01-10", "2027-01-02"])
  })

  test("is of 30 days, both ends included, and of the user or of everybody", () => {
    const days = listDefaultDays(Date.UTC(2027, 0, 31, 23, 59))
    expect(days).toEqual({ from: "2027-01-02", to: "2027-01-31" })
    expect(buildUsagePath(days, "day,model", false, "csv")).toBe("usage?from=2027-01-02&to=2027-01-31&group_by=day%2Cmodel&whose=mine&format=csv")
    expect(buildUsagePath({ from: "", to: "" }, "user", true)).toBe("usage?group_by=user")
  })
})

describe("a budget", () => {
  test("is told of from 80 % on, to those whom it applies to", () => {
    const names = (...budgets: BudgetView[]) => listNearBudgets(budgets).map((budget) => budget.name)
    expect(names(BUDGET, { ...BUDGET, name: "less", spent: 7.99 }, { ...BUDGET, name: "others", applies: false }, { ...BUDGET, name: "over", spent: 11 })).toEqual(["over", "team"])
  })

  test("is told of before a request like the last one has no room", () => {
    const small = { ...BUDGET, amount: 0.5, spent: 0.3 }
    expect([0, 0.1, 0.11].map((reserved) => listNearBudgets([{ ...small, last_reserved: reserved }]).length)).toEqual([0, 0, 1])
    expect(describeNearBudget({ ...small, left: 0.2 }, "en")).toBe("The budget team may have no room for another message: $0.20 of $0.50 is left (January 2027).")
  })

  test("is told of in a sentence", () => {
    expect(describeNearBudget(BUDGET, "en")).toBe("80 % of the budget team is spent: $1.50 of $10.00 is left (January 2027).")
    expect(describeNearBudget({ ...BUDGET, spent: 10.2, left: -0.2 }, "en")).toMatch(/^The budget team is used up \(January 2027\)\./)
  })

  test("names whom it is for and when", () => {
    expect(describeScope({ ...BUDGET, scope: "user", scope_name: '["acme","ann"]' }, "en")).toBe("person ann · acme")
    expect(describeScope({ ...BUDGET, scope: "preset", scope_name: '["acme","brief"]' }, "en")).toBe("preset brief · acme")
    expect(describeScope({ ...BUDGET, scope: "server", scope_name: "" }, "en")).toBe("everybody")
    expect(["2027-01-31", "total"].map((period) => formatPeriod(period, "en"))).toEqual(["January 31, 2027", "in total"])
  })
})
