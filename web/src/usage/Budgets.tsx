import { useLanguage } from "../locales"
import { useUsageText } from "../locales/usage"
import { isNear } from "../state/budgets"
import type { BudgetList, BudgetView } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { describeScope, formatMoney, formatPeriod } from "./describeSpending"

const POLL_MS = 15_000

/** The budgets that the user sees, with what is left of each. */
export function Budgets() {
  const u = useUsageText()
  const { data, problem } = useQuery<BudgetList>("budgets", POLL_MS)
  return (
    <section aria-labelledby="budgets-title">
      <h2 id="budgets-title">{u("budgets")}</h2>
      {problem && !data && <p className="problem">{problem}</p>}
      {data?.count === 0 && <p className="empty">{u("budgets.none")}</p>}
      {data && data.count > 0 && (
        <div className="table-frame" tabIndex={0}>
          <table className="budgets">
            <thead>
              <tr>
                <th scope="col">{u("budget")}</th>
                {(["left", "amount", "spent", "reserved"] as const).map((name) => (
                  <th key={name} scope="col" className="number">
                    {u(name)}
                  </th>
                ))}
                <th scope="col">{u("for")}</th>
                <th scope="col">{u("period")}</th>
              </tr>
            </thead>
            <tbody>
              {data.budgets.map((budget) => (
                <BudgetRow key={`${budget.name}/${budget.scope_name}`} budget={budget} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}

function BudgetRow({ budget }: { budget: BudgetView }) {
  const language = useLanguage()
  const u = useUsageText()
  const format = (amount: number) => formatMoney(amount, budget.currency, language)
  const share = (amount: number) => `${Math.min(100, (amount / budget.amount) * 100)}%`
  return (
    <tr>
      <th scope="row">{budget.name}</th>
      <td className={budget.left <= 0 ? "number bad" : "number"}>
        {format(Math.max(0, budget.left))}
        {budget.left < 0 && <small> {u("overdraft", { amount: format(-budget.left) })}</small>}
        <span className="budget-bar" data-near={isNear(budget) || undefined} aria-hidden>
          <span style={{ width: share(budget.spent) }} />
        </span>
      </td>
      <td className="number">{format(budget.amount)}</td>
      <td className="number">{format(budget.spent)}</td>
      <td className="number">{format(budget.reserved)}</td>
      <td className="clip">{describeScope(budget, language)}</td>
      <td>{formatPeriod(budget.period, language)}</td>
    </tr>
  )
}
