import { Suspense, lazy, useEffect, useRef } from "react"
import { listNearBudgets } from "../state/budgets"
import type { Spending } from "../state/spending"
import type { BudgetList } from "../wire/types"
import { useQuery } from "../wire/useQuery"

const NearBudgets = lazy(() => import("../usage/NearBudgets"))

const POLL_MS = 60_000
/** The server charges a turn to its budgets shortly after the turn has ended. */
const SETTLE_MS = 1000

/** Tells a user whose budget is nearly spent, before a message is refused. Looks again when `spending` has changed. */
export function BudgetNotice({ spending }: { spending: Spending | undefined }) {
  const { data, refetch } = useQuery<BudgetList>("budgets", POLL_MS)
  const seen = useRef(spending)
  useEffect(() => {
    if (seen.current === spending) return
    seen.current = spending
    const timer = setTimeout(refetch, SETTLE_MS)
    return () => clearTimeout(timer)
  }, [spending, refetch])
  const near = data ? listNearBudgets(data.budgets) : []
  if (!near.length) return null
  return (
    <div role="status" className="budget-notice">
      <Suspense fallback={null}>
        <NearBudgets budgets={near} />
      </Suspense>
    </div>
  )
}
