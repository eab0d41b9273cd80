// The cost of a run, if prices are configured: its turns and the summaries of its history. Pure.
import type { Price, Trace, Usage } from "../wire/types"
import type { Language } from "../locales"

/** Return the cost with its currency, or null if no model of the run has a price. */
export function formatCost(trace: Trace, prices: Record<string, Price>, language: Language): string | null {
  let total = 0
  let priced = false
  let currency = "USD"
  const add = (model: string, usage: Usage) => {
    const price = prices[model] ?? prices[trace.model]
    if (!price) return
    priced = true
    currency = price.currency
    const { input_tokens: input = 0, output_tokens: output = 0, cached_tokens: cached = 0 } = usage
    total += ((input - cached) * price.input + cached * (price.cached ?? price.input) + output * price.output) / 1_000_000
  }
  for (const turn of trace.turns) add(turn.model, turn.usage)
  for (const compaction of trace.compactions) add(trace.model, compaction.usage)
  return priced ? new Intl.NumberFormat(language, { style: "currency", currency, maximumFractionDigits: total < 0.1 ? 5 : 2 }).format(total) : null
}
