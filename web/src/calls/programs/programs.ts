// What the page knows of programs (`run_code`) and of the calls inside them. Pure.
import type { CallView } from "../../state/view"
import type { Call, Result } from "../../wire/types"

const PROGRAM_TOOL = "run_code"
/** The head of a card has only the beginning of a longer call. */
const MAX_HEAD_CHARS = 300
const SHORTENED_CHARS = 120

/** Return the text of the program that a call runs, or null for any other call. */
export function getProgramText(call: Pick<Call, "tool"> & { arguments: Record<string, unknown> | null }): string | null {
  const code = call.tool === PROGRAM_TOOL ? call.arguments?.["code"] : null
  return typeof code === "string" ? code : null
}

export function isOpenProgram(call: CallView): boolean {
  return getProgramText(call.call) !== null && (call.phase === "running" || call.phase === "nested")
}

/** Return the calls of a program that wait for a person or the application. */
export function listProgramAsks(program: CallView): CallView[] {
  return (program.calls ?? []).filter((call) => call.phase === "asking" || call.phase === "parked")
}

/**
 * Return the lines at which a program is: those of its open calls. A program that computes is somewhere behind its latest
 * call, whose line is then the best that is known.
 */
export function listRunningLines(program: CallView): number[] {
  const calls = program.calls ?? []
  if (!calls.length || program.phase === "closed") return []
  const open = calls.filter((call) => call.phase !== "closed")
  const lines = (open.length ? open : calls.slice(-1)).map((call) => call.line ?? 0)
  return [...new Set(lines.filter(Boolean))].sort((first, second) => first - second)
}

/** Return a call as the program writes it, with its values: `refund(order='4711', amount=2)`. */
export function formatProgramCall(tool: string, values: Record<string, unknown>): string {
  return `${tool}(${Object.entries(values)
    .map(([name, value]) => `${name}=${formatValue(value)}`)
    .join(", ")})`
}

/** Return a call as the program writes it, or its beginning; `whole` says which. */
export function shortenProgramCall(tool: string, values: Record<string, unknown>): { text: string; whole: boolean } {
  const text = formatProgramCall(tool, values)
  return text.length > MAX_HEAD_CHARS ? { text: `${text.slice(0, SHORTENED_CHARS)}…`, whole: false } : { text, whole: true }
}

function formatValue(value: unknown): string {
  if (typeof value === "string") return quote(value)
  if (typeof value === "boolean") return value ? "True" : "False"
  if (value === null || value === undefined) return "None"
  if (Array.isArray(value)) return `[${value.map(formatValue).join(", ")}]`
  if (typeof value !== "object") return String(value)
  return `{${Object.entries(value)
    .map(([name, field]) => `${quote(name)}: ${formatValue(field)}`)
    .join(", ")}}`
}

/** Return a string as Python writes it. JSON escapes control characters alike. */
function quote(text: string): string {
  const escaped = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"')
  return text.includes("'") && !text.includes('"') ? `"${escaped}"` : `'${escaped.replaceAll("'", "\\'")}'`
}

const EXCEPTIONS: Partial<Record<Result["outcome"], string>> = { denied: "PermissionError", expired: "TimeoutError", timeout: "TimeoutError", error: "RuntimeError", unknown: "RuntimeError" }

/** Return the exception that the end of a call was in its program; empty if it was none. */
export function getRaised(call: CallView): string {
  return (call.parent && call.result && EXCEPTIONS[call.result.outcome]) || ""
}

export interface ProgramResult {
  value: unknown
  printed: string
  note: string
}

/** Read the result of a program, or return null if it is not whole: a long one is stored without its middle. */
export function readProgramResult(content: string): ProgramResult | null {
  try {
    const { value, printed, note } = JSON.parse(content) as Record<string, unknown>
    return { value, printed: typeof printed === "string" ? printed : "", note: typeof note === "string" ? note : "" }
  } catch {
    return null
  }
}
