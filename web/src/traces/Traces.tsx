// The runs there were, to be searched; and one correlation id's runs in all detail.
import { RunTable } from "./RunTable"
import { TracePage } from "./TracePage"

const HERE = "in:"

export default function Traces({ id }: { id: string }) {
  if (id.startsWith(HERE)) return <RunTable conversation={id.slice(HERE.length)} />
  return id ? <TracePage id={id} /> : <RunTable conversation="" />
}
