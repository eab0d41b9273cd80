import type { BudgetView } from "../wire/types"

/** The share of a budget from which on its users are told. The server logs a warning there as well. */
const NEAR = 0.8

/** Return the budgets of the user that are nearly or wholly spent, the fullest first. */
export function listNearBudgets(budgets: BudgetView[]): BudgetView[] {
  return budgets.filter((budget) => budget.applies && isNear(budget)).sort((first, second) => second.spent / second.amount - first.spent / first.amount)
}

export function isNear({ spent, amount }: BudgetView): boolean {
  return spent >= amount * NEAR
}
