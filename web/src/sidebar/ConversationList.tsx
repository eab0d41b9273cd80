// The conversations in the sidebar: pinned ones first, then by day; a search in all of them; and the archive.
import { Archive, ArrowLeft, Plus, Search } from "lucide-react"
import { useEffect, useMemo, useRef, useState } from "react"
import { buildHref, navigate } from "../app/route"
import { OwnerFilter } from "../components/OwnerFilter"
import { useTranslate, type MessageKey } from "../locales"
import { useCommands } from "../state/commands"
import { onConversationsChanged } from "../state/conversations"
import { useOpenRuns } from "../state/openRuns"
import type { ConversationList as Page, ConversationSummary } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { ConversationItem } from "./ConversationItem"

const PAGE_SIZE = 40
const MAX_PINNED = 100
const POLL_MS = 20_000
const TYPING_PAUSE_MS = 200

export function ConversationList({ current }: { current: string }) {
  const t = useTranslate()
  const field = useRef<HTMLInputElement>(null)
  const [text, setText] = useState("")
  const [everyone, setEveryone] = useState(false)
  const [archive, setArchive] = useState(false)
  const [limit, setLimit] = useState(PAGE_SIZE)
  const query = useDebounced(text.trim())
  const owner = everyone ? "&whose=tenant" : ""
  const listPath = `conversations?limit=${limit}${owner}${archive ? "&place=archived" : ""}`
  const { data, refetch } = useQuery<Page>(query ? `conversations/search?q=${encodeURIComponent(query)}&limit=${limit}&place=any${owner}` : listPath, POLL_MS)
  // A pinned conversation is shown however long ago it was changed, so that it may be on no page of the list yet.
  const { data: pinned, refetch: refetchPinned } = useQuery<Page>(`conversations?limit=${MAX_PINNED}&place=pinned`, POLL_MS)
  useEffect(
    () =>
      onConversationsChanged(() => {
        refetch()
        refetchPinned()
      }),
    [refetch, refetchPinned],
  )
  const [shown, setShown] = useState<{ page: Page; query: string } | null>(null)
  if (data && data !== shown?.page) setShown({ page: data, query }) // the old list stays until the response for a new query is there
  const openRuns = useOpenRuns()
  const statuses = useMemo(() => new Map(openRuns.map((run) => [run.conversation, run.status])), [openRuns])
  const page = shown?.page
  const isPlainList = !shown?.query && !archive
  const groups = useMemo(() => groupConversations(page?.conversations ?? [], isPlainList ? (pinned?.conversations ?? []) : []), [page, pinned, isPlainList])
  const step = (by: number) => {
    const ids = groups.flatMap(([, conversations]) => conversations.map(({ id }) => id))
    const next = ids[current ? ids.indexOf(current) + by : 0]
    if (next) navigate("chat", next)
  }
  useCommands([
    { id: "previous", label: t("keys.previous"), run: () => step(-1), keys: { key: "arrowup", alt: true } },
    { id: "next", label: t("keys.next"), run: () => step(1), keys: { key: "arrowdown", alt: true } },
    { id: "search", label: t("list.search"), run: () => field.current?.focus(), keys: { key: "f", ctrl: true, shift: true } },
  ])
  const empty: MessageKey = query ? "list.noMatch" : archive ? "list.noneArchived" : "list.none"
  return (
    <section className="conversations" aria-label={t("list.label")}>
      <a className="new-chat" href={buildHref("chat")}>
        <Plus aria-hidden /> {t("list.new")}
      </a>
      <div className="search">
        <Search aria-hidden />
        <input ref={field} type="search" aria-label={t("list.search")} placeholder={t("list.searchHint")} value={text} onChange={(event) => setText(event.target.value)} />
      </div>
      <OwnerFilter everyone={everyone} onChange={setEveryone} label={t("list.label")} />
      <div className="conversations-scroll">
        {archive && !query && (
          <button className="quiet archive-switch" onClick={() => setArchive(false)}>
            <ArrowLeft aria-hidden /> {t("list.leaveArchive")}
          </button>
        )}
        {page && groups.length === 0 && <p className="empty">{t(empty)}</p>}
        {groups.map(([heading, conversations]) => (
          <div key={heading}>
            <h2>{t(heading)}</h2>
            <ul>
              {conversations.map((conversation) => (
                <ConversationItem key={conversation.id} conversation={conversation} current={conversation.id === current} status={statuses.get(conversation.id)} query={shown?.query ?? ""} />
              ))}
            </ul>
          </div>
        ))}
        {page?.next && (
          <button className="quiet" onClick={() => setLimit(limit + PAGE_SIZE)}>
            {t("list.more")}
          </button>
        )}
        {!archive && !query && (
          <button className="quiet archive-switch" onClick={() => setArchive(true)}>
            <Archive aria-hidden /> {t("list.showArchive")}
          </button>
        )}
      </div>
    </section>
  )
}

/** Return a text once it has not changed for a moment, so that not every key sends a search. */
function useDebounced(text: string): string {
  const [debounced, setDebounced] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setDebounced(text), TYPING_PAUSE_MS)
    return () => clearTimeout(timer)
  }, [text])
  return debounced
}

/** Return the pinned conversations in a group of their own, and the others by the day of their last change. */
function groupConversations(conversations: ConversationSummary[], pinned: ConversationSummary[]): [MessageKey, ConversationSummary[]][] {
  const today = new Date().setHours(0, 0, 0, 0)
  const dayMs = 86_400_000
  const headingOf = (at: number): MessageKey => (at >= today ? "list.today" : at >= today - dayMs ? "list.yesterday" : at >= today - 6 * dayMs ? "list.week" : "list.older")
  const ids = new Set(pinned.map(({ id }) => id))
  const days = Map.groupBy(conversations.filter(({ id }) => !ids.has(id)), (conversation) => headingOf(Date.parse(conversation.updated_at)))
  return pinned.length ? [["list.pinned", pinned], ...days] : [...days]
}
