// The tokens and costs of turns, summaries and calls together, as the server recorded them. Nothing is priced here. Pure.
import type { Cost, RunDigest, Trace, TurnSpan, Usage, UsageLine } from "../wire/types"

export interface Spending {
  inputTokens: number
  outputTokens: number
  /** Millionths of a unit, by currency. */
  micros: Record<string, number>
  /** How many costs are unknown: they are in no sum. */
  unknown: number
  /** How many costs are estimates. */
  estimated: number
}

export const NO_SPENDING: Spending = { inputTokens: 0, outputTokens: 0, micros: {}, unknown: 0, estimated: 0 }

export function addSpending(first: Spending, second: Spending): Spending {
  const micros = { ...first.micros }
  for (const [currency, amount] of Object.entries(second.micros)) micros[currency] = (micros[currency] ?? 0) + amount
  return {
    inputTokens: first.inputTokens + second.inputTokens,
    outputTokens: first.outputTokens + second.outputTokens,
    micros,
    unknown: first.unknown + second.unknown,
    estimated: first.estimated + second.estimated,
  }
}

/** Return what a request to a model used and cost. Without a recorded cost it is unknown. */
export function toModelSpending(usage: Usage | undefined, cost: Cost | null | undefined): Spending {
  const { input_tokens: inputTokens = 0, output_tokens: outputTokens = 0 } = usage ?? {}
  return { ...(cost ? toCostOnly(cost) : { ...NO_SPENDING, unknown: 1 }), inputTokens, outputTokens }
}

/** Return a cost that may be missing because nothing was charged: that of a call, or of a turn that failed. */
export function toOptionalSpending(cost: Cost | null | undefined): Spending {
  return cost ? toCostOnly(cost) : NO_SPENDING
}

/** Return what a compaction used and cost. One that asked no model cost nothing. */
export function toCompactionSpending(usage: Usage | undefined, cost: Cost | null | undefined): Spending {
  return cost || usage?.input_tokens || usage?.output_tokens ? toModelSpending(usage, cost) : NO_SPENDING
}

/** Return what a turn of a trace used and cost. One that is open or has failed may have cost nothing. */
export function toTurnSpending({ finish, usage, cost }: TurnSpan): Spending {
  return finish ? toModelSpending(usage, cost) : toOptionalSpending(cost)
}

export function toTraceSpending(trace: Pick<Trace, "turns" | "calls" | "compactions" | "cost">): Spending {
  return [
    ...trace.turns.map(toTurnSpending),
    ...trace.compactions.map(({ usage, cost }) => toCompactionSpending(usage, cost)),
    ...trace.calls.map(({ cost }) => toOptionalSpending(cost)),
    toOptionalSpending(trace.cost),
  ].reduce(addSpending, NO_SPENDING)
}

export function toLineSpending(line: UsageLine): Spending {
  return {
    inputTokens: line.input_tokens,
    outputTokens: line.output_tokens,
    micros: line.currency && line.cost_micros !== null ? { [line.currency]: line.cost_micros } : {},
    unknown: line.unknown_costs,
    estimated: line.estimated_costs,
  }
}

function toCostOnly({ micros, currency = "USD", estimated, unpriced_tools: unpriced = [] }: Cost): Spending {
  return { ...NO_SPENDING, micros: { [currency]: micros }, unknown: unpriced.length, estimated: estimated ? 1 : 0 }
}

/** Return what a run of a list cost. */
export function toDigestSpending({ cost_micros: micros, unknown_costs: unknown, estimated_costs: estimated }: Pick<RunDigest, "cost_micros" | "unknown_costs" | "estimated_costs">): Spending {
  return { ...NO_SPENDING, micros, unknown, estimated }
}
