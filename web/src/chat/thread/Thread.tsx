// The messages of a conversation. Only the visible rows are rendered, however many there are.
import { useVirtualizer } from "@tanstack/react-virtual"
import { ArrowDown } from "lucide-react"
import { useCallback, useEffect, useMemo, useRef, useState, type MouseEvent, type UIEvent } from "react"
import { findContinuation, getHead, listVersions, type RowVersions } from "../../state/branches"
import { hasItem } from "../../state/find"
import type { QueuedRun, Row, ConversationView } from "../../state/view"
import { ErrorBoundary } from "../../components/ErrorBoundary"
import { useTranslate } from "../../locales"
import { EndingRow } from "./EndingRow"
import { UserMessageRow } from "./UserMessageRow"
import { BudgetWait } from "../BudgetWait"
import { ThinkingIndicator } from "./ThinkingIndicator"
import { TurnRow } from "./TurnRow"
import { Unanswered } from "./Unanswered"

/** Within this distance of the end the view follows new text. */
const NEAR_END_PX = 90
/**
 * A scroll event this soon after user input comes from the user. Any other comes from the virtualizer, when a row turns out
 * taller or shorter than estimated, and must not stop the view from following the end.
 */
const USER_SCROLL_MS = 1500
/** So long after a click on something that opens or closes, a change of size is what the click did. */
const TOGGLE_MS = 500

const COMPACTION_KEYS = { summarised: "chat.compacted", results: "chat.resultsDropped", "left out": "chat.messagesDropped" } as const

type ThreadRow = Row | { kind: "queued"; key: string; queued: QueuedRun } | { kind: "thinking"; key: string } | { kind: "budget"; key: string; name: string }

/** The message or row to scroll to. Each object is one wish: the same row can be wished for again. */
export interface ScrollTarget {
  item: string
}

interface ThreadProps {
  view: ConversationView
  loading: boolean
  /** The number of messages that were sent from here. */
  sent: number
  target: ScrollTarget | null
}

export function Thread({ view, loading, sent, target }: ThreadProps) {
  const t = useTranslate()
  const scroll = useRef<HTMLDivElement>(null)
  const content = useRef<HTMLDivElement>(null)
  /** Whether the view follows the end. A ref, as the observers below read it between renders. */
  const following = useRef(true)
  const lastInputAt = useRef(-USER_SCROLL_MS)
  const noteInput = () => {
    lastInputAt.current = performance.now()
  }
  // Somebody who opens a call or a thought wants to read it where it is: the view then follows the end no longer.
  const onClick = (event: MouseEvent<HTMLElement>) => {
    if (!(event.target as Element).closest("[aria-expanded], summary")) return
    following.current = false
    virtual.shouldAdjustScrollPositionOnItemSizeChange = () => false
    setTimeout(() => (virtual.shouldAdjustScrollPositionOnItemSizeChange = undefined), TOGGLE_MS)
  }
  const [scrolledAway, setScrolledAway] = useState(false)
  const rows = listRows(view)
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
  const scrollToEnd = useCallback(() => {
    following.current = true
    setScrolledAway(false)
    const box = scroll.current
    if (box) box.scrollTop = box.scrollHeight
  }, [])
  const onScroll = ({ currentTarget: box }: UIEvent<HTMLElement>) => {
    if (isNearEnd(box)) following.current = true
    else if (performance.now() - lastInputAt.current < USER_SCROLL_MS) following.current = false
    setScrolledAway(!following.current)
  }
  useEffect(() => {
    // New text makes the content taller; the composer and the window change the height of the frame.
    const observer = new ResizeObserver(() => {
      if (following.current || !scroll.current) return scrollToEnd()
      following.current = isNearEnd(scroll.current)
      setScrolledAway(!following.current)
    })
    observer.observe(content.current!)
    observer.observe(scroll.current!)
    return () => observer.disconnect()
  }, [scrollToEnd])
  // Somebody who sends a message wants to see it and its answer, wherever they were reading.
  useEffect(scrollToEnd, [scrollToEnd, sent])
  const targetIndex = target ? rows.findIndex((row) => hasItem(row, target.item)) : -1
  useEffect(() => {
    if (targetIndex < 0) return
    following.current = false
    virtual.scrollToIndex(targetIndex, { align: "center" })
  }, [target, targetIndex < 0])
  const items = virtual.getVirtualItems()
  const latest = findLatestTurn(view)
  const versions = useMemo(() => listVersions(view), [view])
  const continuation = useMemo(() => findContinuation(view), [view])
  return (
    <div className="thread-frame">
      <div className="thread" ref={scroll} onScroll={onScroll} onWheel={noteInput} onTouchMove={noteInput} onPointerDown={noteInput} onKeyDown={noteInput} onClick={onClick} tabIndex={0} role="region" aria-label={t("chat.thread")} aria-busy={loading}>
        <div ref={content} style={{ height: virtual.getTotalSize(), position: "relative" }}>
          <div role="list" className="thread-rows" style={{ transform: `translateY(${items[0]?.start ?? 0}px)` }}>
            {items.map((item) => (
              <div key={item.key} role="listitem" data-index={item.index} ref={virtual.measureElement} className="row" data-found={item.index === targetIndex || undefined}>
                <ErrorBoundary message={t("common.broken")}>
                  <RowView
                    row={rows[item.index]!}
                    last={item.index === rows.length - 1}
                    latest={rows[item.index]!.key === latest}
                    versions={versions.get(rows[item.index]!.key)}
                    after={findItemBefore(view.rows, item.index)}
                    retryOf={findQuestion(view.rows, item.index)}
                    continuation={continuation}
                  />
                </ErrorBoundary>
              </div>
            ))}
          </div>
        </div>
      </div>
      {scrolledAway && (
        <button className="round to-end" aria-label={t("chat.latest")} title={t("chat.latest")} onClick={scrollToEnd}>
          <ArrowDown aria-hidden />
        </button>
      )}
    </div>
  )
}

function isNearEnd(box: HTMLElement): boolean {
  return box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END_PX
}

/** Return the key of the turn that the user may reply to: the last one, if no message followed it. Else return "". */
function findLatestTurn(view: ConversationView): string {
  const row = view.rows.findLast((candidate) => candidate.kind === "turn" || candidate.kind === "user")
  return row?.kind === "turn" && !view.queue.length ? row.key : ""
}

interface RowViewProps {
  row: ThreadRow
  last: boolean
  latest: boolean
  versions: RowVersions | undefined
  after: string
  retryOf: string
  continuation: string
}

function RowView({ row, last, latest, versions, after, retryOf, continuation }: RowViewProps) {
  const t = useTranslate()
  switch (row.kind) {
    case "user":
      return (
        <>
          <UserMessageRow item={row.item} after={after} versions={versions} />
          {last && <Unanswered message={row.item.id} continuation={continuation} />}
        </>
      )
    case "note":
      return <p className="note">{row.item.text}</p>
    case "turn":
      return <TurnRow turn={row} latest={latest} versions={versions} retryOf={retryOf} />
    case "ending":
      return <EndingRow row={row} last={last} retryOf={retryOf} continuation={continuation} />
    case "compacted":
      return <p className="note">{t(COMPACTION_KEYS[row.how])}</p>
    case "queued":
      return (
        <>
          {row.queued.input.map((item) => item.type === "user_message" && <UserMessageRow key={item.id} item={item} queued />)}
        </>
      )
    case "thinking":
      return <ThinkingIndicator />
    case "budget":
      return <BudgetWait name={row.name} />
    default:
      return row satisfies never
  }
}

/** Return the item in front of a row, after which another version of the row can begin; empty at the beginning. */
function findItemBefore(rows: Row[], index: number): string {
  const row = findBefore(rows, index, (candidate) => getHead(candidate) !== "")
  return row ? getHead(row) : ""
}

/** Return the user's message that a row is the last answer to, or whose run it ends. Else return "". */
function findQuestion(rows: Row[], index: number): string {
  const row = rows[index]
  if (row?.kind === "turn" ? rows[index + 1]?.kind === "turn" || row.number === 0 : row?.kind !== "ending") return ""
  const question = findBefore(rows, index, (candidate) => candidate.kind === "user" || (candidate.kind === "turn" && candidate.number === 0))
  return question?.kind === "user" ? question.key : ""
}

function findBefore(rows: Row[], index: number, matches: (row: Row) => boolean): Row | undefined {
  for (let at = index - 1; at >= 0; at--) if (matches(rows[at]!)) return rows[at]
  return undefined
}

/** Return the rows to show: those of the view, an indicator while a run has produced nothing yet, and queued messages. */
function listRows(view: ConversationView): ThreadRow[] {
  const queued: ThreadRow[] = view.queue.map((run) => ({ kind: "queued", key: run.run, queued: run }))
  const last = view.rows.at(-1)
  const lastIsEmpty = last?.kind === "turn" && last.open && last.parts.length === 0
  const thinking = view.run && !view.run.waiting && (last?.kind === "user" || lastIsEmpty)
  const rows = lastIsEmpty ? view.rows.slice(0, -1) : view.rows
  if (view.run?.budget) return [...rows, { kind: "budget", key: "budget", name: view.run.budget }, ...queued]
  return thinking ? [...rows, { kind: "thinking", key: "thinking" }, ...queued] : queued.length ? [...rows, ...queued] : rows
}
