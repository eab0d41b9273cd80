// The messages of a conversation. Only those in sight are drawn, however many there are.
import { useVirtualizer } from "@tanstack/react-virtual"
import { ArrowDown } from "lucide-react"
import { useCallback, useEffect, useRef, useState } from "react"
import type { Queued, Row, View } from "../state/view"
import { Boundary } from "../components/ErrorBoundary"
import { useSay } from "../locales"
import { EndingRow } from "./EndingRow"
import { SaidRow } from "./UserMessageRow"
import { Thinking } from "./ThinkingIndicator"
import { TurnRow } from "./TurnRow"

const NEAR_PX = 90
/** A scroll so soon after a hand moved is somebody's will; any other comes from rows that turned out taller or shorter. */
const INTENT_MS = 1500

const COMPACTED = { summarised: "chat.compacted", results: "chat.resultsLeftOut", "left out": "chat.leftOut" } as const

type Shown = Row | { kind: "queued"; key: string; queued: Queued } | { kind: "thinking"; key: string }

export function Thread({ view, loading }: { view: View; loading: boolean }) {
  const say = useSay()
  const scroll = useRef<HTMLDivElement>(null)
  const inner = useRef<HTMLDivElement>(null)
  const follows = useRef(true)
  const touched = useRef(-INTENT_MS)
  const touch = () => {
    touched.current = performance.now()
  }
  const [away, setAway] = useState(false)
  const rows = shown(view)
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => 140,
    getItemKey: (index) => rows[index]!.key,
    overscan: 6,
    paddingStart: 24,
    paddingEnd: 24,
    useFlushSync: false,
  })
  const toEnd = useCallback(() => {
    follows.current = true
    setAway(false)
    const box = scroll.current
    if (box) box.scrollTop = box.scrollHeight
  }, [])
  const onScroll = () => {
    const box = scroll.current!
    const near = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX
    if (near) follows.current = true
    else if (performance.now() - touched.current < INTENT_MS) follows.current = false
    setAway(!follows.current)
  }
  useEffect(() => {
    const watch = new ResizeObserver(() => follows.current && toEnd())
    watch.observe(inner.current!)
    watch.observe(scroll.current!)
    return () => watch.disconnect()
  }, [toEnd])
  const items = virtual.getVirtualItems()
  const latest = latestTurn(view)
  return (
    <div className="thread-frame">
      <div className="thread" ref={scroll} onScroll={onScroll} onWheel={touch} onTouchMove={touch} onPointerDown={touch} onKeyDown={touch} tabIndex={0} role="region" aria-label={say("chat.thread")} aria-busy={loading}>
        <div ref={inner} style={{ height: virtual.getTotalSize(), position: "relative" }}>
          <div role="list" className="thread-rows" style={{ transform: `translateY(${items[0]?.start ?? 0}px)` }}>
            {items.map((item) => (
              <div key={item.key} role="listitem" data-index={item.index} ref={virtual.measureElement} className="row">
                <Boundary words={say("common.broken")}>
                  <Drawn row={rows[item.index]!} last={item.index === rows.length - 1} latest={rows[item.index]!.key === latest} />
                </Boundary>
              </div>
            ))}
          </div>
        </div>
      </div>
      {away && (
        <button className="round to-end" aria-label={say("chat.latest")} title={say("chat.latest")} onClick={toEnd}>
          <ArrowDown aria-hidden />
        </button>
      )}
    </div>
  )
}

/** The key of the turn that the visitor may answer: the last one, if nobody has said anything since. */
function latestTurn(view: View): string {
  const row = view.rows.findLast((one) => one.kind === "turn" || one.kind === "said")
  return row?.kind === "turn" && !view.queue.length ? row.key : ""
}

function Drawn({ row, last, latest }: { row: Shown; last: boolean; latest: boolean }) {
  const say = useSay()
  switch (row.kind) {
    case "said":
      return <SaidRow item={row.item} />
    case "note":
      return <p className="note">{row.item.text}</p>
    case "turn":
      return <TurnRow turn={row} latest={latest} />
    case "ending":
      return <EndingRow row={row} last={last} />
    case "compacted":
      return <p className="note">{say(COMPACTED[row.how])}</p>
    case "queued":
      return (
        <>
          {row.queued.input.map((item) => item.type === "user_message" && <SaidRow key={item.id} item={item} queued />)}
        </>
      )
    case "thinking":
      return <Thinking />
    default:
      return row satisfies never
  }
}

/** The rows, then who stands in line; and a sign of life where a run has nothing to show yet. */
function shown(view: View): Shown[] {
  const queued: Shown[] = view.queue.map((one) => ({ kind: "queued", key: one.run, queued: one }))
  const last = view.rows.at(-1)
  const silent = view.run && !view.run.waiting && (last?.kind === "said" || (last?.kind === "turn" && last.open && last.parts.length === 0))
  const rows = last?.kind === "turn" && last.open && last.parts.length === 0 ? view.rows.slice(0, -1) : view.rows
  return silent ? [...rows, { kind: "thinking", key: "thinking" }, ...queued] : queued.length ? [...rows, ...queued] : rows
}
