// What a run cost, where prices are configured. Pure.
import type { Price, Trace } from "../wire/types"

export function costOf(trace: Trace, prices: Record<string, Price>): string | null {
  let total = 0
  let known = false
  let currency = "USD"
  const summaries = trace.compactions.map(({ usage }) => ({ model: trace.model, usage }))
  for (const turn of [...trace.turns, ...summaries]) {
    const price = prices[trace.model] ?? prices[turn.model]
    if (!price) continue
    known = true
    currency = price.currency
    const { input_tokens: input = 0, output_tokens: output = 0, cached_tokens: cached = 0 } = turn.usage
    total += ((input - cached) * price.input + cached * (price.cached ?? price.input) + output * price.output) / 1_000_000
  }
  return known ? new Intl.NumberFormat(undefined, { style: "currency", currency, maximumFractionDigits: total < 0.1 ? 5 : 2 }).format(total) : null
}
