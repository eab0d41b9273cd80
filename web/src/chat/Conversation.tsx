import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react"
import { maySeeTenant, useMe } from "../session/caller"
import { notifyConversationsChanged } from "../state/conversations"
import { getConversationStore, type ConversationStore } from "../state/conversationStore"
import { findHead } from "../state/branches"
import { branch, deleteMessage, rewind, sendMessage } from "../state/messages"
import { loadOpenRuns } from "../state/openRuns"
import type { Attachment } from "../attachments/useAttachments"
import { hasUnjudgedCalls, listWaitingCalls } from "../state/view"
import { requestJson } from "../wire/http"
import { useProblem } from "../wire/useProblem"
import { useTitle } from "../app/title"
import { useTranslate } from "../locales"
import { ApproveAll } from "./ApproveAll"
import { Composer } from "./Composer"
import { ConversationContext, type MessageActions } from "../state/conversationContext"
import { Announcer } from "./Announcer"
import { Thread } from "./Thread"
import { Toolbar } from "./Toolbar"
import { describeWait } from "../calls/approvalTerms"

/** Return whether Escape has another meaning here: it closes a menu or dialog, clears a search or ends a composition. */
function hasOtherMeaning(event: KeyboardEvent): boolean {
  const isSearch = event.target instanceof HTMLInputElement && event.target.type === "search"
  return event.defaultPrevented || event.isComposing || isSearch || document.querySelector("dialog[open], .popup, [data-menu=open]") !== null
}

export function Conversation({ id }: { id: string }) {
  const t = useTranslate()
  const me = useMe()
  const store = useMemo(() => getConversationStore(id), [id])
  const { view, status, problem } = useSyncExternalStore(store.subscribe, store.getSnapshot)
  const [sent, setSent] = useState(0)
  const send = useCallback(
    (text: string, attachments: Attachment[] = []) => {
      setSent((number) => number + 1)
      return sendMessage(id, text, { added: attachments })
    },
    [id],
  )
  useTitle(view.title)
  const running = view.run !== null
  // Until the owner is known, guess what is most likely: operators mostly read the conversations of others.
  const mine = view.owner ? view.owner === me.user : me.keyless || !maySeeTenant(me)
  const stop = useCallback(() => void requestJson("POST", `conversations/${encodeURIComponent(id)}/cancel`, {}).catch(() => undefined), [id])
  useEffect(() => {
    if (!running) return notifyConversationsChanged() // a run that ends moves the conversation to the front of the list
    if (!mine) return
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape" && !hasOtherMeaning(event)) stop()
    }
    addEventListener("keydown", onKey)
    return () => removeEventListener("keydown", onKey)
  }, [running, mine, stop])
  const waiting = useMemo(() => listWaitingCalls(view), [view])
  useEffect(() => void loadOpenRuns(), [running, waiting.length]) // what this page sees first, the rest of it shows at once
  const waitsFor = waiting.length ? describeWait(waiting, me, view.owner || me.user, t) : ""
  const mayDecide = mine || me.roles.includes("approver")
  const [failed, fail, clear] = useProblem()
  const idle = mine && !running && view.queue.length === 0
  const actions = useMemo(() => (idle ? createActions(store, fail, clear) : null), [idle, store, fail, clear])
  const context = useMemo(() => ({ conversation: id, send: mine ? send : null, mayDecide, actions }), [id, send, mine, mayDecide, actions])
  if (status === "gone") {
    return (
      <div className="chat chat-new">
        <p className="greeting" title={problem}>
          {t("chat.gone")}
        </p>
      </div>
    )
  }
  return (
    <ConversationContext value={context}>
      <div className="chat">
        <Toolbar conversation={id} view={view} mine={mine} waitsFor={waitsFor} />
        <Thread view={view} loading={status === "loading"} sent={sent} />
        <div className="chat-foot">
          {status === "away" && (
            <p className="banner" role="status">
              {t("chat.reconnecting")}
            </p>
          )}
          {mayDecide && !hasUnjudgedCalls(view) && <ApproveAll conversation={id} calls={waiting.filter((call) => call.phase === "asking" && !call.terms)} />}
          {failed && (
            <p className="problem" role="alert">
              {failed}
            </p>
          )}
          {mine ? <Composer key={id} conversation={id} model={view.model} spending={view.spending} send={send} stop={running ? stop : undefined} stopping={view.run?.stopping ?? false} /> : view.owner && <p className="hint">{t("chat.readOnly", { user: view.owner })}</p>}
        </div>
        <Announcer view={view} waiting={waiting.length} waitsFor={waitsFor} />
      </div>
    </ConversationContext>
  )
}

/** Return the actions on the messages of a conversation. Each clears the problem of the one before, and reports its own. */
function createActions(store: ConversationStore, fail: (error: unknown) => void, clear: () => void): MessageActions {
  const id = store.conversation
  const run = async (work: () => Promise<void>): Promise<boolean> => {
    clear()
    try {
      await work()
      return true
    } catch (error) {
      fail(error)
      return false
    }
  }
  const getEnd = () => findHead(store.getSnapshot().view.rows)
  return {
    retry: (message) => void run(() => branch(id, message, "", getEnd())),
    resend: (after, text, files) => run(() => branch(id, after, text, getEnd(), files)),
    show: (head) => void run(() => rewind(id, head)),
    remove: (message) => void run(() => deleteMessage(id, message)),
  }
}
