// A turn of the model: its reasoning, text and calls in the order of the model. Calls that follow each other are shown side
// by side, as they run in parallel.
import { Fragment, memo, useMemo } from "react"
import { CallCard } from "../../calls/CallCard"
import { DraftCard } from "../../calls/DraftCard"
import { Markdown } from "../../components/markdown/Markdown"
import type { RowVersions } from "../../state/branches"
import type { Turn, TurnPart } from "../../state/view"
import { useTranslate } from "../../locales"
import { MessageBar } from "./MessageBar"
import { Sources } from "./Sources"
import { SpentLine } from "../SpentLine"
import { Suggestions } from "./Suggestions"

interface TurnRowProps {
  turn: Turn
  /** Whether the user may reply to this turn: only its suggestions can still be picked. */
  latest: boolean
  versions: RowVersions | undefined
  /** The message that this turn is the last answer to; empty for a turn in the middle of a run. */
  retryOf: string
}

export const TurnRow = memo(function TurnRow({ turn, latest, versions, retryOf }: TurnRowProps) {
  const t = useTranslate()
  const text = turn.parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("\n\n")
  const groups = useMemo(() => groupCalls(turn.parts), [turn.parts])
  return (
    <article className="turn" aria-label={t(turn.number ? "chat.model" : "call.byHand")}>
      {turn.restarted > 0 && turn.open && <p className="note">{t("chat.restarted")}</p>}
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
            {group.map((part) => (part.kind === "call" ? <CallCard key={part.id} call={part.call} /> : part.kind === "draft" ? <DraftCard key={part.id} tool={part.tool} text={part.text} /> : null))}
          </div>
        )
      })}
      <SpentLine of="answer" spending={turn.spending} />
      {!turn.open && (text || versions || retryOf) && <MessageBar text={text} copyLabel={t("message.copyAnswer")} message={turn.head && (turn.parts.find((part) => part.kind !== "reasoning")?.id ?? "")} versions={versions} retryOf={retryOf} run={turn.run ?? ""} />}
    </article>
  )
})

function Reasoning({ text, open }: { text: string; open: boolean }) {
  const t = useTranslate()
  return (
    <details className="reasoning" open={open || undefined}>
      <summary>{t("chat.reasoning")}</summary>
      <p>{text}</p>
    </details>
  )
}

/** Return the parts in groups: calls that follow each other together, any other part alone. */
function groupCalls(parts: TurnPart[]): TurnPart[][] {
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
