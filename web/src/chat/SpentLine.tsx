import { Suspense, lazy } from "react"
import type { Spending } from "../state/spending"
import { useSpendingPreference } from "../state/spendingPreference"

const Spent = lazy(() => import("../usage/Spent"))

/** What an answer or a conversation has used or cost, if the user wants to see it. Others do not load its texts. */
export function SpentLine({ of, spending }: { of: "answer" | "conversation"; spending: Spending | undefined }) {
  const show = useSpendingPreference()
  if (show === "off" || !spending) return null
  return (
    <Suspense fallback={null}>
      <Spent of={of} spending={spending} show={show} />
    </Suspense>
  )
}
