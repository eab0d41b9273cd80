import { buildHref } from "../app/route"
import { useLanguage } from "../locales"
import { useUsageText } from "../locales/usage"
import type { BudgetView } from "../wire/types"
import { describeNearBudget } from "./describeSpending"

/** A sentence for each budget that is nearly spent, with a link to all of them. */
export default function NearBudgets({ budgets }: { budgets: BudgetView[] }) {
  const language = useLanguage()
  const u = useUsageText()
  return (
    <p>
      {budgets.map((budget) => (
        <span key={`${budget.name}/${budget.scope_name}`}>{describeNearBudget(budget, language)} </span>
      ))}
      <a href={buildHref("usage")}>{u("nearLink")}</a>
    </p>
  )
}
