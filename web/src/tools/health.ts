// How tools do, from their calls of a week. Pure.
import type { ToolFigures } from "../wire/types"
import type { Word } from "../locales"

export interface Health {
  kind: "ok" | "asking" | "bad" | ""
  word: Word
  calls: number
  errors: number
  lastAt: number | null
  lastError: string
  lastErrorAt: number | null
}

/** From here on so many fail that nobody should count on it. */
const OFTEN = 0.5

/** Of one tool, or of all the tools of a server together. */
export function healthOf(figures: ToolFigures[], broken = false): Health {
  const sum = (of: (one: ToolFigures) => number) => figures.reduce((total, one) => total + of(one), 0)
  const calls = sum((one) => one.calls)
  const errors = sum((one) => one.errors)
  const failed = figures.filter((one) => one.last_error_at !== null).sort((one, other) => other.last_error_at! - one.last_error_at!)[0]
  const [kind, word] = judged(broken, calls, errors)
  return {
    kind,
    word,
    calls,
    errors,
    lastAt: figures.length ? Math.max(...figures.map((one) => one.last_at)) : null,
    lastError: failed?.last_error ?? "",
    lastErrorAt: failed?.last_error_at ?? null,
  }
}

function judged(broken: boolean, calls: number, errors: number): [Health["kind"], Word] {
  if (broken) return ["bad", "tools.unhealthy"]
  if (!calls) return ["", "health.unused"]
  if (!errors) return ["ok", "health.works"]
  return errors / calls >= OFTEN ? ["bad", "health.fails"] : ["asking", "health.failsSometimes"]
}
