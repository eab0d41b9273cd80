import { MoreHorizontal, Pencil, Plus, Search, Trash2 } from "lucide-react"
import { memo, useEffect, useMemo, useRef, useState, type FormEvent } from "react"
import { useMe } from "../session/caller"
import { Dialog } from "../components/Dialog"
import { OwnerFilter } from "../components/OwnerFilter"
import { navigate, buildHref } from "../app/route"
import { notifyConversationsChanged, onConversationsChanged } from "../state/conversations"
import { forgetConversationStore } from "../state/conversationStore"
import { useOpenRuns } from "../state/openRuns"
import { requestJson } from "../wire/http"
import type { ConversationList as Page, ConversationSummary, OpenRun } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { useTranslate, type MessageKey } from "../locales"

const PAGE_SIZE = 40
const POLL_MS = 20_000
const TYPING_PAUSE_MS = 200

export function ConversationList({ current }: { current: string }) {
  const t = useTranslate()
  const [text, setText] = useState("")
  const [everyone, setEveryone] = useState(false)
  const [limit, setLimit] = useState(PAGE_SIZE)
  const query = useDebounced(text.trim())
  const owner = everyone ? "&whose=tenant" : ""
  const path = query ? `conversations/search?q=${encodeURIComponent(query)}&limit=${limit}${owner}` : `conversations?limit=${limit}${owner}`
  const { data, refetch } = useQuery<Page>(path, POLL_MS)
  useEffect(() => onConversationsChanged(refetch), [refetch])
  const [page, setPage] = useState<Page | null>(null)
  if (data && data !== page) setPage(data) // the old list stays until the response for a new query is there
  const openRuns = useOpenRuns()
  const statuses = useMemo(() => new Map(openRuns.map((run) => [run.conversation, run.status])), [openRuns])
  const groups = useMemo(() => groupByDay(page?.conversations ?? []), [page])
  return (
    <section className="conversations" aria-label={t("list.label")}>
      <a className="new-chat" href={buildHref("chat")}>
        <Plus aria-hidden /> {t("list.new")}
      </a>
      <div className="search">
        <Search aria-hidden />
        <input type="search" aria-label={t("list.search")} placeholder={t("list.search")} value={text} onChange={(event) => setText(event.target.value)} />
      </div>
      <OwnerFilter everyone={everyone} onChange={setEveryone} label={t("list.label")} />
      <div className="conversations-scroll">
        {page && page.count === 0 && <p className="empty">{t(query ? "list.notFound" : "list.none")}</p>}
        {groups.map(([heading, conversations]) => (
          <div key={heading}>
            <h2>{t(heading)}</h2>
            <ul>
              {conversations.map((conversation) => (
                <ConversationItem key={conversation.id} conversation={conversation} current={conversation.id === current} status={statuses.get(conversation.id)} />
              ))}
            </ul>
          </div>
        ))}
        {page?.next && (
          <button className="quiet" onClick={() => setLimit(limit + PAGE_SIZE)}>
            {t("list.more")}
          </button>
        )}
      </div>
    </section>
  )
}

interface ConversationItemProps {
  conversation: ConversationSummary
  current: boolean
  /** The status of its open run, if it has one. */
  status: OpenRun["status"] | undefined
}

/** Rendered again only if something that it shows has changed: each answer of a poll is a new list of new objects. */
const ConversationItem = memo(function ConversationItem({ conversation, current, status }: ConversationItemProps) {
  const t = useTranslate()
  const me = useMe()
  const title = conversation.title || t("list.untitled")
  const [open, setOpen] = useState<"menu" | "rename" | "delete" | null>(null)
  const menu = useRef<HTMLDivElement>(null)
  const opener = useRef<HTMLButtonElement>(null)
  // The entry of the menu goes away with it: a dialog gives the focus back to the button that opened the menu.
  const showDialog = (dialog: "rename" | "delete") => {
    opener.current?.focus()
    setOpen(dialog)
  }
  useEffect(() => {
    if (open !== "menu") return
    const close = (event: Event) => {
      if (event instanceof KeyboardEvent ? event.key !== "Escape" : menu.current?.contains(event.target as Node)) return
      if (event instanceof KeyboardEvent) {
        event.preventDefault()
        opener.current?.focus()
      }
      setOpen(null)
    }
    addEventListener("pointerdown", close)
    addEventListener("keydown", close)
    return () => {
      removeEventListener("pointerdown", close)
      removeEventListener("keydown", close)
    }
  }, [open])
  return (
    <li className="conversation-item" data-current={current || undefined}>
      <a href={buildHref("chat", conversation.id)} aria-current={current ? "true" : undefined}>
        <span className="conversation-title">{title}</span>
        {status && <span className="dot" data-state={status} role="img" aria-label={t(`status.${status === "ended" ? "done" : status}`)} title={t(`status.${status === "ended" ? "done" : status}`)} />}
      </a>
      {conversation.user === me.user && (
        <div className="conversation-item-menu" ref={menu} onBlur={(event) => open === "menu" && event.relatedTarget && !event.currentTarget.contains(event.relatedTarget) && setOpen(null)}>
          <button className="icon" ref={opener} aria-label={t("list.actions", { title })} aria-expanded={open === "menu"} onClick={() => setOpen(open ? null : "menu")}>
            <MoreHorizontal aria-hidden />
          </button>
          {open === "menu" && (
            <div className="popup">
              <button onClick={() => showDialog("rename")}>
                <Pencil aria-hidden /> {t("list.rename")}
              </button>
              <button onClick={() => showDialog("delete")}>
                <Trash2 aria-hidden /> {t("list.delete")}
              </button>
            </div>
          )}
        </div>
      )}
      {open === "rename" && <RenameDialog conversation={conversation} onClose={() => setOpen(null)} />}
      {open === "delete" && <DeleteDialog conversation={conversation} title={title} current={current} onClose={() => setOpen(null)} />}
    </li>
  )
}, isSameItem)

function isSameItem(before: ConversationItemProps, after: ConversationItemProps): boolean {
  const [old, now] = [before.conversation, after.conversation]
  return old.id === now.id && old.title === now.title && old.user === now.user && before.current === after.current && before.status === after.status
}

function RenameDialog({ conversation, onClose }: { conversation: ConversationSummary; onClose: () => void }) {
  const t = useTranslate()
  const [title, setTitle] = useState(conversation.title)
  const save = async (event: FormEvent) => {
    event.preventDefault()
    await requestJson("PUT", `conversations/${encodeURIComponent(conversation.id)}`, { title: title.trim() })
    notifyConversationsChanged()
    onClose()
  }
  return (
    <Dialog title={t("list.rename")} onClose={onClose}>
      <form onSubmit={save}>
        <input aria-label={t("list.rename")} autoFocus maxLength={500} value={title} onChange={(event) => setTitle(event.target.value)} />
        <footer>
          <button type="button" onClick={onClose}>
            {t("common.cancel")}
          </button>
          <button className="primary" disabled={!title.trim()}>
            {t("common.save")}
          </button>
        </footer>
      </form>
    </Dialog>
  )
}

function DeleteDialog({ conversation, title, current, onClose }: { conversation: ConversationSummary; title: string; current: boolean; onClose: () => void }) {
  const t = useTranslate()
  const remove = async () => {
    await requestJson("DELETE", `conversations/${encodeURIComponent(conversation.id)}`)
    forgetConversationStore(conversation.id)
    onClose()
    notifyConversationsChanged()
    if (current) navigate("chat")
  }
  return (
    <Dialog title={t("list.delete")} onClose={onClose}>
      <p>{t("list.deleteConfirm", { title })}</p>
      <footer>
        <button onClick={onClose}>{t("common.cancel")}</button>
        <button className="danger" onClick={() => void remove()}>
          {t("list.delete")}
        </button>
      </footer>
    </Dialog>
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

function groupByDay(conversations: ConversationSummary[]): [MessageKey, ConversationSummary[]][] {
  const today = new Date().setHours(0, 0, 0, 0)
  const dayMs = 86_400_000
  const headingOf = (at: number): MessageKey => (at >= today ? "list.today" : at >= today - dayMs ? "list.yesterday" : at >= today - 6 * dayMs ? "list.week" : "list.older")
  return [...Map.groupBy(conversations, (conversation) => headingOf(Date.parse(conversation.updated_at)))]
}
