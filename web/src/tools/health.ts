// The health of tools, from the calls of a week. Pure.
import type { ToolFigures } from "../wire/types"
import type { MessageKey } from "../locales"

export interface Health {
  kind: "ok" | "asking" | "bad" | ""
  message: MessageKey
  calls: number
  errors: number
  lastAt: number | null
  lastError: string
  lastErrorAt: number | null
}

/** From this share of failed calls on a tool counts as failing. */
const FAILING_SHARE = 0.5
/** Fewer calls say too little about how often a tool fails. */
const MIN_CALLS = 5

interface FigureFacts {
  /** Whether the tool is offered, but cannot be run. */
  broken?: boolean
  /** Whether the figures are of the caller's own calls alone. */
  own?: boolean
}

/** Return the health of a tool, or of all the tools of a server together. */
export function summarizeHealth(figures: ToolFigures[], { broken = false, own = false }: FigureFacts = {}): Health {
  const calls = figures.reduce((total, tool) => total + tool.calls, 0)
  const errors = figures.reduce((total, tool) => total + tool.errors, 0)
  const failed = figures.filter((tool) => tool.last_error_at !== null).sort((first, second) => second.last_error_at! - first.last_error_at!)[0]
  const [kind, message] = classify(broken, own, calls, errors)
  return {
    kind,
    message,
    calls,
    errors,
    lastAt: figures.length ? Math.max(...figures.map((tool) => tool.last_at)) : null,
    lastError: failed?.last_error ?? "",
    lastErrorAt: failed?.last_error_at ?? null,
  }
}

function classify(broken: boolean, own: boolean, calls: number, errors: number): [Health["kind"], MessageKey] {
  if (broken) return ["bad", "tools.unhealthy"]
  if (!calls) return ["", own ? "health.unusedByYou" : "health.unused"]
  if (!errors) return ["ok", "health.works"]
  if (calls < MIN_CALLS) return ["asking", "health.failed"]
  return errors / calls >= FAILING_SHARE ? ["bad", "health.fails"] : ["asking", "health.failsSometimes"]
}
