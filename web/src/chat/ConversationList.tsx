import { MoreHorizontal, Pencil, Plus, Search, Trash2 } from "lucide-react"
import { useEffect, useMemo, useRef, useState, type FormEvent } from "react"
import { maySeeTenant, useMe } from "../caller"
import { Dialog } from "../components/Dialog"
import { go, hrefOf } from "../route"
import { conversationsChanged, onConversationsChanged } from "../state/conversations"
import { forget } from "../state/conversationStore"
import { ask, part } from "../wire/http"
import type { ConversationList as Page, ConversationSummary } from "../wire/types"
import { useAnswer } from "../wire/useQuery"
import { useSay, type Word } from "../locales"

const PAGE = 40
const LOOK_EVERY_MS = 20_000

export function ConversationList({ current }: { current: string }) {
  const say = useSay()
  const me = useMe()
  const [text, setText] = useState("")
  const [everyone, setEveryone] = useState(false)
  const [most, setMost] = useState(PAGE)
  const query = useSettled(text.trim())
  const whose = everyone ? "&whose=tenant" : ""
  const path = query ? `conversations/search?q=${part(query)}&limit=${most}${whose}` : `conversations?limit=${most}${whose}`
  const { data, again } = useAnswer<Page>(path, LOOK_EVERY_MS)
  useEffect(() => onConversationsChanged(again), [again])
  const [shown, setShown] = useState<Page | null>(null)
  if (data && data !== shown) setShown(data) // the old list stays until the new one is there
  const groups = useMemo(() => byDay(shown?.conversations ?? []), [shown])
  return (
    <section className="conversations" aria-label={say("list.label")}>
      <a className="new-chat" href={hrefOf("chat")}>
        <Plus aria-hidden /> {say("list.new")}
      </a>
      <div className="search">
        <Search aria-hidden />
        <input type="search" aria-label={say("list.search")} placeholder={say("list.search")} value={text} onChange={(event) => setText(event.target.value)} />
      </div>
      {maySeeTenant(me) && !me.keyless && (
        <div className="switch" role="group" aria-label={say("list.label")}>
          <button aria-pressed={!everyone} onClick={() => setEveryone(false)}>
            {say("list.mine")}
          </button>
          <button aria-pressed={everyone} onClick={() => setEveryone(true)}>
            {say("list.everyone")}
          </button>
        </div>
      )}
      <div className="conversations-scroll">
        {shown && shown.count === 0 && <p className="empty">{say(query ? "list.notFound" : "list.none")}</p>}
        {groups.map(([word, conversations]) => (
          <div key={word}>
            <h2>{say(word)}</h2>
            <ul>
              {conversations.map((one) => (
                <Listed key={one.id} conversation={one} current={one.id === current} />
              ))}
            </ul>
          </div>
        ))}
        {shown?.next && (
          <button className="quiet" onClick={() => setMost(most + PAGE)}>
            {say("list.more")}
          </button>
        )}
      </div>
    </section>
  )
}

function Listed({ conversation, current }: { conversation: ConversationSummary; current: boolean }) {
  const say = useSay()
  const me = useMe()
  const title = conversation.title || say("list.untitled")
  const [open, setOpen] = useState<"menu" | "rename" | "delete" | null>(null)
  const menu = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (open !== "menu") return
    const close = (event: Event) => {
      if (event instanceof KeyboardEvent ? event.key !== "Escape" : menu.current?.contains(event.target as Node)) return
      if (event instanceof KeyboardEvent) event.preventDefault()
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
    <li className="listed" data-current={current || undefined}>
      <a href={hrefOf("chat", conversation.id)} aria-current={current ? "true" : undefined}>
        {title}
      </a>
      {conversation.user === me.user && (
        <div className="listed-menu" ref={menu}>
          <button className="icon" aria-label={say("list.actions", { title })} aria-expanded={open === "menu"} onClick={() => setOpen(open ? null : "menu")}>
            <MoreHorizontal aria-hidden />
          </button>
          {open === "menu" && (
            <div className="popup">
              <button onClick={() => setOpen("rename")}>
                <Pencil aria-hidden /> {say("list.rename")}
              </button>
              <button onClick={() => setOpen("delete")}>
                <Trash2 aria-hidden /> {say("list.delete")}
              </button>
            </div>
          )}
        </div>
      )}
      {open === "rename" && <Rename conversation={conversation} onClose={() => setOpen(null)} />}
      {open === "delete" && <Delete conversation={conversation} title={title} current={current} onClose={() => setOpen(null)} />}
    </li>
  )
}

function Rename({ conversation, onClose }: { conversation: ConversationSummary; onClose: () => void }) {
  const say = useSay()
  const [title, setTitle] = useState(conversation.title)
  const save = async (event: FormEvent) => {
    event.preventDefault()
    await ask("PUT", `conversations/${part(conversation.id)}`, { title: title.trim() })
    conversationsChanged()
    onClose()
  }
  return (
    <Dialog title={say("list.rename")} onClose={onClose}>
      <form onSubmit={save}>
        <input aria-label={say("list.rename")} autoFocus maxLength={500} value={title} onChange={(event) => setTitle(event.target.value)} />
        <footer>
          <button type="button" onClick={onClose}>
            {say("common.cancel")}
          </button>
          <button className="primary" disabled={!title.trim()}>
            {say("common.save")}
          </button>
        </footer>
      </form>
    </Dialog>
  )
}

function Delete({ conversation, title, current, onClose }: { conversation: ConversationSummary; title: string; current: boolean; onClose: () => void }) {
  const say = useSay()
  const remove = async () => {
    await ask("DELETE", `conversations/${part(conversation.id)}`)
    forget(conversation.id)
    onClose()
    conversationsChanged()
    if (current) go("chat")
  }
  return (
    <Dialog title={say("list.delete")} onClose={onClose}>
      <p>{say("list.deleteSure", { title })}</p>
      <footer>
        <button onClick={onClose}>{say("common.cancel")}</button>
        <button className="danger" onClick={() => void remove()}>
          {say("list.delete")}
        </button>
      </footer>
    </Dialog>
  )
}

/** What was typed, once the typing rests. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), 200)
    return () => clearTimeout(timer)
  }, [text])
  return settled
}

function byDay(conversations: ConversationSummary[]): [Word, ConversationSummary[]][] {
  const today = new Date().setHours(0, 0, 0, 0)
  const day = 86_400_000
  const named = (at: number): Word => (at >= today ? "list.today" : at >= today - day ? "list.yesterday" : at >= today - 6 * day ? "list.week" : "list.older")
  return [...Map.groupBy(conversations, (one) => named(Date.parse(one.updated_at)))]
}
