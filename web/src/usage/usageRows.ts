// The lines of a usage report as the rows of a table, and its dates. Pure.
import { NO_SPENDING, addSpending, toLineSpending, type Spending } from "../state/spending"
import type { UsageLine } from "../wire/types"

export const SPLITS = ["user", "model", "day"] as const
export type Split = (typeof SPLITS)[number]

export interface UsageTableRow {
  /** A person, a model or a day; empty for tools with a price, which belong to no model. */
  name: string
  turns: number
  spending: Spending
}

const DAY_MS = 86_400_000
const DEFAULT_DAYS = 30

/** Return a row for each name; people of lines with a tenant are told apart by it. The server has a line for each currency and one for what is unknown; they are put together. */
export function buildRows(lines: UsageLine[], split: Split): UsageTableRow[] {
  const rows = new Map<string, UsageTableRow>()
  for (const line of lines) {
    const name = [line[split], split === "user" && line.tenant].filter(Boolean).join(" · ")
    const row = rows.get(name) ?? { name, turns: 0, spending: NO_SPENDING }
    rows.set(name, { name, turns: row.turns + line.turns, spending: addSpending(row.spending, toLineSpending(line)) })
  }
  const sorted = [...rows.values()]
  if (split === "day") return sorted.sort((first, second) => second.name.localeCompare(first.name))
  return sorted.sort((first, second) => sumMicros(second) - sumMicros(first) || countTokens(second) - countTokens(first) || first.name.localeCompare(second.name))
}

export function sumRows(rows: UsageTableRow[]): Omit<UsageTableRow, "name"> {
  return { turns: rows.reduce((total, row) => total + row.turns, 0), spending: rows.map((row) => row.spending).reduce(addSpending, NO_SPENDING) }
}

/** Return the first and last of the days that the page begins with, as UTC counts them. */
export function listDefaultDays(nowMs: number): { from: string; to: string } {
  const format = (ms: number) => new Date(ms).toISOString().slice(0, 10)
  return { from: format(nowMs - (DEFAULT_DAYS - 1) * DAY_MS), to: format(nowMs) }
}

/** Return the path of a report. A day that is not filled in is left to the server. */
export function buildUsagePath(days: { from: string; to: string }, groupBy: string, everyone: boolean, format = ""): string {
  const query = { ...days, group_by: groupBy, whose: everyone ? "" : "mine", format }
  return `usage?${new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString()}`
}

function sumMicros({ spending }: UsageTableRow): number {
  return Object.values(spending.micros).reduce((total, micros) => total + micros, 0)
}

function countTokens({ spending }: UsageTableRow): number {
  return spending.inputTokens + spending.outputTokens
}
