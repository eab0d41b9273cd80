// Costs, tokens and budgets in words. Pure.
import { formatCount } from "../app/format"
import { createTranslate, type Language } from "../locales"
import { createUsageText } from "../locales/usage"
import { isNearlySpent } from "../state/budgets"
import type { Spending } from "../state/spending"
import type { BudgetView } from "../wire/types"

const MICROS = 1_000_000
/** Below this, an amount of currency units is shown with three digits that are not leading zeros, else with cents. */
const SMALL_AMOUNT = 0.1

export function formatMoney(amount: number, currency: string, language: Language): string {
  const isSmall = amount !== 0 && Math.abs(amount) < SMALL_AMOUNT
  const digits = isSmall ? { maximumSignificantDigits: 3 } : { minimumFractionDigits: 2, maximumFractionDigits: 2 }
  return new Intl.NumberFormat(language, { style: "currency", currency, ...digits }).format(amount)
}

/** Return the cost in words: what is unknown and what is estimated is said. Return "" if there is nothing to pay for. */
export function describeCost(spending: Spending, language: Language): string {
  const u = createUsageText(language)
  const amounts = Object.entries(spending.micros).map(([currency, micros]) => formatMoney(micros / MICROS, currency, language))
  if (!amounts.length) return spending.unknown ? u("unknown") : ""
  const known = amounts.join(" + ")
  const cost = spending.unknown ? u("andUnknown", { cost: known }) : known
  return spending.estimated ? u("estimated", { cost }) : cost
}

export function describeTokens({ inputTokens, outputTokens }: Spending, language: Language): string {
  if (!inputTokens && !outputTokens) return ""
  return createTranslate(language)("traces.inOut", { input: formatCount(inputTokens, language), output: formatCount(outputTokens, language) })
}

/** Return whom a budget is for. The name of a person or a preset is stored with that of the tenant, as JSON. */
export function describeScope({ scope, scope_name: name }: BudgetView, language: Language): string {
  const u = createUsageText(language)
  switch (scope) {
    case "user":
    case "preset": {
      const [tenant, own] = JSON.parse(name) as [string, string]
      return u(`scope.${scope}`, { name: tenant ? `${own} · ${tenant}` : own })
    }
    case "tenant":
    case "key":
    case "division":
      return u(`scope.${scope}`, { name })
    default:
      return u("scope.server")
  }
}

/** Return the window of a budget in words: a day, a month, or all time. */
export function formatPeriod(period: string, language: Language): string {
  const [year, month, day] = period.split("-").map(Number)
  if (!year || !month) return createUsageText(language)("total")
  const format = { year: "numeric", month: "long", day: day ? "numeric" : undefined, timeZone: "UTC" } as const
  return new Intl.DateTimeFormat(language, format).format(Date.UTC(year, month - 1, day ?? 1))
}

/** Return the sentence for a budget that is nearly or wholly spent. */
export function describeNearBudget(budget: BudgetView, language: Language): string {
  const u = createUsageText(language)
  const { name, amount, spent, currency } = budget
  const period = formatPeriod(budget.period, language)
  if (spent >= amount) return u("usedUp", { name, period })
  const left = formatMoney(Math.max(0, budget.left), currency, language)
  const values = { name, period, left, amount: formatMoney(amount, currency, language) }
  return isNearlySpent(budget) ? u("near", { ...values, percent: Math.floor((spent / amount) * 100) }) : u("tight", values)
}
