// One turn of the model: its thoughts, its words and its calls, in the order they came; calls next to each other stand side by side.
import { Fragment, memo, useMemo } from "react"
import { CallCard } from "../calls/CallCard"
import { DraftCard } from "../calls/DraftCard"
import { Markdown } from "../components/Markdown"
import type { Turn, TurnPart } from "../state/view"
import { useSay } from "../locales"
import { Sources } from "./Sources"
import { Suggestions } from "./Suggestions"

/** `latest` is the last turn, which nobody has answered yet: only its suggestions can still be picked. */
export const TurnRow = memo(function TurnRow({ turn, latest }: { turn: Turn; latest: boolean }) {
  const say = useSay()
  const groups = useMemo(() => grouped(turn.parts), [turn.parts])
  return (
    <article className="turn" aria-label={say(turn.number ? "chat.model" : "call.byHand")}>
      {turn.restarted > 0 && turn.open && <p className="note">{say("chat.restarted")}</p>}
      {groups.map((group) => {
        const [first] = group
        if (!first) return null
        if (first.kind === "text")
          return (
            <Fragment key={first.id}>
              <Markdown text={first.text} open={turn.open} />
              {first.citations && <Sources citations={first.citations} />}
              {latest && first.suggestions && <Suggestions suggestions={first.suggestions} />}
            </Fragment>
          )
        if (first.kind === "reasoning") return <Reasoning key={first.id} text={first.text} open={turn.open} />
        return (
          <div key={first.id} className="calls" data-many={group.length > 1 || undefined}>
            {group.map((one) => (one.kind === "call" ? <CallCard key={one.id} call={one.call} /> : one.kind === "draft" ? <DraftCard key={one.id} tool={one.tool} text={one.text} /> : null))}
          </div>
        )
      })}
    </article>
  )
})

function Reasoning({ text, open }: { text: string; open: boolean }) {
  const say = useSay()
  return (
    <details className="reasoning" open={open || undefined}>
      <summary>{say("chat.reasoning")}</summary>
      <p>{text}</p>
    </details>
  )
}

function grouped(parts: TurnPart[]): TurnPart[][] {
  const groups: TurnPart[][] = []
  for (const part of parts) {
    const last = groups.at(-1)
    const isCall = part.kind === "call" || part.kind === "draft"
    const lastIsCall = last?.[0]?.kind === "call" || last?.[0]?.kind === "draft"
    if (last && isCall && lastIsCall) last.push(part)
    else groups.push([part])
  }
  return groups
}
