// The branches of a conversation as its rows show them. Pure.
import type { ConversationView, Row } from "./view"

/** The versions of a row, oldest first: for each the item to rewind to, and which of them is shown. */
export interface RowVersions {
  heads: string[]
  current: number
}

/** Return the id of the last item that a row has in the history; empty if it has none. */
export function getHead(row: Row): string {
  switch (row.kind) {
    case "user":
    case "note":
      return row.key
    case "turn":
      return row.head
    case "ending":
      return row.message ? row.key : ""
    case "compacted":
      return ""
    default:
      return row satisfies never
  }
}

/** Return the id of the last item of the rows; empty if they have none. */
export function findHead(rows: Row[]): string {
  const last = rows.findLast((row) => getHead(row) !== "")
  return last ? getHead(last) : ""
}

/** Return the versions of each row that has several, by the key of the row. */
export function listVersions(view: ConversationView): Map<string, RowVersions> {
  const versions = new Map<string, RowVersions>()
  if (!view.leftRows.length) return versions
  const children = collectChildren(view)
  const path = view.rows.filter((row) => getHead(row) !== "")
  path.forEach((row, index) => {
    const siblings = [...(children.get(path[index - 1]?.key ?? "")?.entries() ?? [])].sort(([, first], [, second]) => first.at - second.at)
    if (siblings.length < 2) return
    versions.set(row.key, { heads: siblings.map(([, sibling]) => sibling.head), current: siblings.findIndex(([key]) => key === row.key) })
  })
  return versions
}

/** Return where the branch ends that was left last after the current last row; empty if none goes on from there. */
export function findContinuation(view: ConversationView): string {
  if (!view.leftRows.length) return ""
  const last = view.rows.findLast((row) => getHead(row) !== "")
  const continuations = [...(collectChildren(view).get(last?.key ?? "")?.values() ?? [])]
  return continuations.sort((first, second) => second.at - first.at)[0]?.head ?? ""
}

/** For each row the rows that follow it on some branch, with the end of the branch that was left last. */
function collectChildren(view: ConversationView): Map<string, Map<string, { at: number; head: string }>> {
  const children = new Map<string, Map<string, { at: number; head: string }>>()
  // The current rows come last, so that the version that is shown leads to where the conversation is.
  for (const rows of [...view.leftRows, view.rows]) {
    const path = rows.filter((row) => getHead(row) !== "")
    const head = findHead(rows)
    let parent = ""
    for (const row of path) {
      const siblings = children.get(parent) ?? new Map<string, { at: number; head: string }>()
      siblings.set(row.key, { at: row.at, head })
      children.set(parent, siblings)
      parent = row.key
    }
  }
  return children
}
