// A conversation in the sidebar: its title, the passage that a search found in it, and a menu.
import { Archive, ArchiveRestore, MoreHorizontal, Pencil, Pin, PinOff, Trash2 } from "lucide-react"
import { memo, useState, type FormEvent } from "react"
import { buildHref, buildMessageHref, navigate } from "../app/route"
import { Dialog } from "../components/Dialog"
import { PopupMenu } from "../components/PopupMenu"
import { ProblemText } from "../components/ProblemText"
import { useTranslate } from "../locales"
import { useMe } from "../session/caller"
import { changeConversation, deleteConversation, restoreConversation, type Place } from "../state/conversations"
import { offerUndo } from "../state/undo"
import type { ConversationSummary, OpenRun, Passage } from "../wire/types"
import { useProblem } from "../wire/useProblem"

interface ConversationItemProps {
  conversation: ConversationSummary
  current: boolean
  /** The status of its open run, if it has one. */
  status: OpenRun["status"] | undefined
  /** The text that was searched for; empty if the list shows all. */
  query: string
}

/** Rendered again only if something that it shows has changed: each answer of a poll is a new list of new objects. */
export const ConversationItem = memo(function ConversationItem({ conversation, current, status, query }: ConversationItemProps) {
  const t = useTranslate()
  const me = useMe()
  const title = conversation.title || t("list.untitled")
  const { passage, place } = conversation
  const [renaming, setRenaming] = useState(false)
  const [problem, fail, clear] = useProblem()
  const run = (work: () => Promise<void>) => {
    clear()
    void work().catch(fail)
  }
  const move = (to: Place) => run(() => changeConversation(conversation.id, { place: to }))
  const archive = () =>
    run(async () => {
      const before = place === "pinned" ? "pinned" : ""
      await changeConversation(conversation.id, { place: "archived" })
      offerUndo({ text: t("list.archived", { title }), undo: () => changeConversation(conversation.id, { place: before }) })
    })
  const remove = () =>
    run(async () => {
      await deleteConversation(conversation)
      if (current) navigate("chat")
      offerUndo({
        text: t("list.deleted", { title }),
        undo: async () => {
          await restoreConversation(conversation)
          if (current) navigate("chat", conversation.id)
        },
      })
    })
  return (
    <li className="conversation-item" data-current={current || undefined}>
      <a href={passage ? buildMessageHref(conversation.id, passage.message_id, query) : buildHref("chat", conversation.id)} aria-current={current ? "true" : undefined}>
        <span className="conversation-title" title={title}>
          {title}
        </span>
        {query && place === "archived" && <span className="pill">{t("list.inArchive")}</span>}
        {status && <span className="dot" data-state={status} role="img" aria-label={t(`status.${status === "ended" ? "done" : status}`)} title={t(`status.${status === "ended" ? "done" : status}`)} />}
        {passage && <PassageText passage={passage} />}
      </a>
      {conversation.user === me.user && (
        <PopupMenu className="conversation-item-menu" label={t("list.actions", { title })} icon={<MoreHorizontal aria-hidden />}>
          {place !== "archived" && (
            <button onClick={() => move(place === "pinned" ? "" : "pinned")}>
              {place === "pinned" ? <PinOff aria-hidden /> : <Pin aria-hidden />} {t(place === "pinned" ? "list.unpin" : "list.pin")}
            </button>
          )}
          <button onClick={() => setRenaming(true)}>
            <Pencil aria-hidden /> {t("list.rename")}
          </button>
          <button onClick={place === "archived" ? () => move("") : archive}>
            {place === "archived" ? <ArchiveRestore aria-hidden /> : <Archive aria-hidden />} {t(place === "archived" ? "list.unarchive" : "list.archive")}
          </button>
          <button onClick={remove}>
            <Trash2 aria-hidden /> {t("list.delete")}
          </button>
        </PopupMenu>
      )}
      <ProblemText text={problem} />
      {renaming && <RenameDialog conversation={conversation} onClose={() => setRenaming(false)} />}
    </li>
  )
}, isSameItem)

function isSameItem(before: ConversationItemProps, after: ConversationItemProps): boolean {
  const [old, now] = [before.conversation, after.conversation]
  const isSameConversation = old.id === now.id && old.title === now.title && old.user === now.user && old.place === now.place && old.passage?.text === now.passage?.text
  return isSameConversation && before.current === after.current && before.status === after.status && before.query === after.query
}

/** Signs of Markdown that say nothing without their effect. */
const SIGNS = /\*\*|~~|`/g

/** The words around a match, with the match marked. The server counts characters, which are not JavaScript's units. */
function PassageText({ passage: { text, start, length } }: { passage: Passage }) {
  const characters = Array.from(text)
  const show = (from: number, to?: number) => characters.slice(from, to).join("").replace(SIGNS, "")
  return (
    <span className="passage">
      {show(0, start)}
      <mark>{characters.slice(start, start + length).join("")}</mark>
      {show(start + length)}
    </span>
  )
}

function RenameDialog({ conversation, onClose }: { conversation: ConversationSummary; onClose: () => void }) {
  const t = useTranslate()
  const [title, setTitle] = useState(conversation.title)
  const [problem, fail] = useProblem()
  const save = (event: FormEvent) => {
    event.preventDefault()
    changeConversation(conversation.id, { title: title.trim() }).then(onClose, fail)
  }
  return (
    <Dialog title={t("list.rename")} onClose={onClose}>
      <form onSubmit={save}>
        <input aria-label={t("list.rename")} autoFocus maxLength={500} value={title} onChange={(event) => setTitle(event.target.value)} />
        <ProblemText text={problem} />
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
