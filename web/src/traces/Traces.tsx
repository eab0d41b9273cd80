// The traces page: a table of runs to search, or the runs of one correlation id in detail.
import { RunTable } from "./RunTable"
import { TracePage } from "./TracePage"

/** The id of a page that lists the runs of a conversation begins so. */
const CONVERSATION_PREFIX = "in:"

export default function Traces({ id }: { id: string }) {
  if (id.startsWith(CONVERSATION_PREFIX)) return <RunTable conversation={id.slice(CONVERSATION_PREFIX.length)} />
  return id ? <TracePage id={id} /> : <RunTable conversation="" />
}
