// What a run cost, where prices are configured: its turns, and what summing up its history took. Pure.
import type { Price, Trace, Usage } from "../wire/types"
import type { Language } from "../locales"

export function costOf(trace: Trace, prices: Record<string, Price>, language: Language): string | null {
  let total = 0
  let known = false
  let currency = "USD"
  const add = (model: string, usage: Usage) => {
    const price = prices[model] ?? prices[trace.model]
    if (!price) return
    known = true
    currency = price.currency
    const { input_tokens: input = 0, output_tokens: output = 0, cached_tokens: cached = 0 } = usage
    total += ((input - cached) * price.input + cached * (price.cached ?? price.input) + output * price.output) / 1_000_000
  }
  for (const turn of trace.turns) add(turn.model, turn.usage)
  for (const room of trace.compactions) add(trace.model, room.usage)
  return known ? new Intl.NumberFormat(language, { style: "currency", currency, maximumFractionDigits: total < 0.1 ? 5 : 2 }).format(total) : null
}
