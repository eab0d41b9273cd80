import type { BudgetView } from "../wire/types"

/** The share of a budget from which on its users are told. The server logs a warning there as well. */
const NEAR = 0.8
/** How many requests like the last one have to fit. With fewer, the user is told. */
const REQUESTS_BEFORE = 2

/** Return the budgets of the user that are nearly or wholly spent, the fullest first. */
export function listNearBudgets(budgets: BudgetView[]): BudgetView[] {
  return budgets.filter((budget) => budget.applies && isNear(budget)).sort((first, second) => second.spent / second.amount - first.spent / first.amount)
}

/** A small budget is near its end before that: a request needs room for the most that it may cost. */
export function isNear(budget: BudgetView): boolean {
  return isNearlySpent(budget) || budget.amount - budget.spent < budget.last_reserved * REQUESTS_BEFORE
}

export function isNearlySpent({ spent, amount }: BudgetView): boolean {
  return spent >= amount * NEAR
}
