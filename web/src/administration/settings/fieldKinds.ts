// The values of the fields of a setting, as they are typed and as they are sent. Pure.
import type { SettingField } from "../../wire/types"

/** What answers hold in place of a secret; sent back, it leaves the secret as it is. */
export const MASK = "***"

export type Values = Record<string, unknown>
/** What an input takes; tables of fields have inputs of their own. */
export type FieldKind = Exclude<SettingField["type"], "table" | "tables" | "entries">

/** Return the lines of a text that are not blank, or undefined if there are none. */
export function splitLines(text: string): string[] | undefined {
  const lines = text.split("\n").map((line) => line.trim())
  const present = lines.filter(Boolean)
  return present.length ? present : undefined
}

/** Return a value as lines: a list with a line for each item, or a single text. */
export function joinLines(value: unknown): string {
  return Array.isArray(value) ? value.join("\n") : typeof value === "string" ? value : ""
}

/** Return the lines of a text as a list, or the only one as a word if it is one to choose; undefined if there are none. */
export function parseLines(text: string, choices: string[]): string | string[] | undefined {
  const lines = splitLines(text)
  return lines?.length === 1 && choices.includes(lines[0]!) ? lines[0] : lines
}

/** Return a number if the text is one, else the text; undefined if it is empty. */
export function parseSuggestion(text: string): string | number | undefined {
  const trimmed = text.trim()
  if (!trimmed) return undefined
  return /^\d+$/.test(trimmed) ? Number(trimmed) : trimmed
}

/** Return the values with one of them replaced, or left out if it is undefined. */
export function withValue(values: Values, name: string, value: unknown): Values {
  const { [name]: _, ...rest } = values
  return value === undefined ? rest : { ...values, [name]: value }
}

/** Return the errors of fields without the place of the entry in a file, which the form itself shows. */
export function shortenProblems(problems: Record<string, string>, kind: string): Record<string, string> {
  const shorten = (key: string, message: string) => {
    const end = message.indexOf(`${key} `)
    return message.startsWith(`${kind}.`) && end > 0 ? message.slice(end + key.length + 1) : message
  }
  return Object.fromEntries(Object.entries(problems).map(([key, message]) => [key, shorten(key, message)]))
}

/** Return the errors of a field: those under its own name, and those of what is inside of it. */
export function findFieldProblem(problems: Record<string, string>, name: string): string {
  return Object.entries(problems)
    .filter(([key]) => key === name || key.startsWith(`${name}.`))
    .map(([, message]) => message)
    .join("; ")
}

/** Return a value in few words, for a list of entries; of a table only the names, and its numbers. */
export function summarizeValue(value: unknown, stored: string): string {
  if (Array.isArray(value)) return value.map((item) => (typeof item === "object" ? `(${summarizeValue(item, stored)})` : String(item))).join(", ")
  if (typeof value === "object" && value !== null)
    return Object.entries(value)
      .map(([name, inner]) => (typeof inner === "number" ? `${name} ${inner}` : name))
      .join(", ")
  return value === MASK ? stored : String(value ?? "")
}
