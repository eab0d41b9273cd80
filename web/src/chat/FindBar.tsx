// A search in the conversation that is shown. The browser's own would miss the messages that are not rendered.
import { ChevronDown, ChevronUp, X } from "lucide-react"
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react"
import { useTranslate } from "../locales"
import { hasItem, listMatches } from "../state/find"
import type { ConversationView } from "../state/view"

const HIGHLIGHT = "find"

interface FindBarProps {
  view: ConversationView
  /** The text to begin with, and the message that it was found in; both empty if nothing was searched for. */
  initial: { find: string; item: string }
  /** Scroll to the row with this key. */
  show: (key: string) => void
  onClose: () => void
}

export function FindBar({ view, initial, show, onClose }: FindBarProps) {
  const t = useTranslate()
  const [query, setQuery] = useState(initial.find)
  const [current, setCurrent] = useState(() => view.rows.find((row) => hasItem(row, initial.item))?.key ?? "")
  const matches = useMemo(() => listMatches(view.rows, query), [view.rows, query])
  const field = useRef<HTMLInputElement>(null)
  const at = matches.indexOf(current)
  useHighlight(query)
  const go = (index: number) => {
    const key = matches[(index + matches.length) % matches.length]
    if (!key) return
    setCurrent(key)
    show(key)
  }
  useEffect(() => {
    field.current?.focus()
    field.current?.select()
  }, [])
  // The newest message is mostly the one that is looked for.
  useEffect(() => {
    if (at < 0 && matches.length) go(matches.length - 1)
  }, [matches])
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Enter") go(event.shiftKey ? at - 1 : at + 1)
    else if (event.key === "Escape") onClose()
    else return
    event.preventDefault()
  }
  return (
    <div className="find-bar" role="search" aria-label={t("find.title")}>
      <input ref={field} type="search" aria-label={t("find.title")} placeholder={t("find.title")} value={query} onChange={(event) => setQuery(event.target.value)} onKeyDown={onKey} />
      <span className="find-count" role="status">
        {query.trim() && (matches.length ? t("find.count", { n: at + 1, count: matches.length }) : t("list.notFound"))}
      </span>
      <button type="button" className="icon" aria-label={t("find.previous")} title={t("find.previous")} disabled={!matches.length} onClick={() => go(at - 1)}>
        <ChevronUp aria-hidden />
      </button>
      <button type="button" className="icon" aria-label={t("find.next")} title={t("find.next")} disabled={!matches.length} onClick={() => go(at + 1)}>
        <ChevronDown aria-hidden />
      </button>
      <button type="button" className="icon" aria-label={t("common.close")} onClick={onClose}>
        <X aria-hidden />
      </button>
    </div>
  )
}

/** Highlight a text wherever the thread shows it, without a change to the document: rows come and go while it scrolls. */
function useHighlight(query: string): void {
  useEffect(() => {
    const thread = document.querySelector(".thread")
    const wanted = query.trim().toLowerCase()
    if (!thread || !wanted || !("highlights" in CSS)) return
    let frame = 0
    const mark = () => {
      frame = 0
      CSS.highlights.set(HIGHLIGHT, new Highlight(...findRanges(thread, wanted)))
    }
    const observer = new MutationObserver(() => (frame ||= requestAnimationFrame(mark)))
    observer.observe(thread, { childList: true, subtree: true, characterData: true })
    mark()
    return () => {
      observer.disconnect()
      cancelAnimationFrame(frame)
      CSS.highlights.delete(HIGHLIGHT)
    }
  }, [query])
}

function findRanges(root: Element, wanted: string): Range[] {
  const ranges: Range[] = []
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT)
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.nodeValue!.toLowerCase()
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
      const range = new Range()
      // Lower case may be longer than the text, as of İ.
      range.setStart(node, Math.min(at, node.nodeValue!.length))
      range.setEnd(node, Math.min(at + wanted.length, node.nodeValue!.length))
      ranges.push(range)
    }
  }
  return ranges
}
