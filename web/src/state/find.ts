// Which rows of a conversation have a text, as the search in it shows them. Pure.
import type { Row } from "./view"

/** Return whether a message is shown in this row: the user's own, or a part of a turn. */
export function hasItem(row: { kind: string; key: string }, item: string): boolean {
  return row.key === item || ("parts" in row && (row as { parts: { id: string }[] }).parts.some((part) => part.id === item))
}

/** Return the keys of the rows whose text contains the query, ignoring case and the signs of Markdown. */
export function listMatches(rows: Row[], query: string): string[] {
  const wanted = normalize(query)
  return wanted ? rows.filter((row) => normalize(getText(row)).includes(wanted)).map((row) => row.key) : []
}

function getText(row: Row): string {
  switch (row.kind) {
    case "user":
      return row.item.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")
    case "note":
      return row.item.text
    case "turn":
      return row.parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("\n")
    case "ending":
      return row.message
    case "compacted":
      return ""
    default:
      return row satisfies never
  }
}

function normalize(text: string): string {
  return text.replace(/[*_`~]/g, "").replace(/\s+/g, " ").trim().toLowerCase()
}
