import { buildHref } from "../app/route"
import { useLanguage } from "../locales"
import { useUsageText } from "../locales/usage"
import type { Spending } from "../state/spending"
import { describeCost, describeTokens } from "./describeSpending"

export interface SpentProps {
  of: "answer" | "conversation"
  spending: Spending
  show: "tokens" | "cost"
}

/** What an answer or a conversation has used or cost, as a link to the page that tells more. */
export default function Spent({ of, spending, show }: SpentProps) {
  const language = useLanguage()
  const u = useUsageText()
  const text = show === "cost" ? describeCost(spending, language) : describeTokens(spending, language)
  if (!text) return null
  return (
    <a className="spent" href={buildHref("usage")} title={u(of)} aria-label={`${u(of)}: ${text}`}>
      {text}
    </a>
  )
}
