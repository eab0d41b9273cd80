import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react"
import { ProblemText } from "../components/ProblemText"
import { maySeeTenant, useMe } from "../session/caller"
import { notifyConversationsChanged } from "../state/conversations"
import { getConversationStore, type ConversationStore } from "../state/conversationStore"
import { findHead } from "../state/branches"
import { branch, deleteMessage, rewind, sendMessage } from "../state/messages"
import { runCommand } from "../state/commands"
import { enqueueRequest } from "../state/requestQueue"
import { loadOpenRuns } from "../state/openRuns"
import type { Attachment } from "../attachments/useAttachments"
import { hasUnjudgedCalls, listWaitingCalls } from "../state/view"
import { requestJson } from "../wire/http"
import type { FeedbackList } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { useProblem } from "../wire/useProblem"
import { useTitle } from "../app/title"
import { useTranslate } from "../locales"
import { ApproveAll } from "./ApproveAll"
import { Composer, type Insertion } from "./Composer"
import { SettingChips, useChips } from "./settings/SettingChips"
import { ModelPicker } from "./settings/ModelPicker"
import { ConversationContext, type MessageActions } from "../state/conversationContext"
import { Announcer } from "./Announcer"
import { Thread, type ScrollTarget } from "./thread/Thread"
import { Toolbar } from "./Toolbar"
import { FindBar } from "./FindBar"
import { useFind } from "./useFind"
import { isIntroduced } from "./OfflineNotice"
import { describeWait } from "../calls/approvalTerms"

/** Return whether Escape has another meaning here: it closes a menu or dialog, clears a search or ends a composition. */
function hasOtherMeaning(event: KeyboardEvent): boolean {
  const isSearch = event.target instanceof HTMLInputElement && event.target.type === "search"
  return event.defaultPrevented || event.isComposing || isSearch || document.querySelector("dialog[open], .popup, [data-menu=open]") !== null
}

/** `item` is a message to scroll to and `find` the text that was found in it; both are empty for the end. */
export function Conversation({ id, item, find }: { id: string; item: string; find: string }) {
  const t = useTranslate()
  const me = useMe()
  const store = useMemo(() => getConversationStore(id), [id])
  const { view, status, problem } = useSyncExternalStore(store.subscribe, store.getSnapshot)
  const [sent, setSent] = useState(0)
  const [target, setTarget] = useState<ScrollTarget | null>(null)
  useEffect(() => setTarget(item ? { item } : null), [item])
  const show = useCallback((key: string) => setTarget({ item: key }), [])
  const [finding, setFinding] = useFind(id, find)
  const send = useCallback(
    (text: string, attachments: Attachment[] = []) => {
      setSent((number) => number + 1)
      return sendMessage(id, text, { added: attachments })
    },
    [id],
  )
  const [insertion, setInsertion] = useState<Insertion | null>(null)
  const write = useCallback((text: string) => setInsertion({ text }), [])
  useTitle(view.title)
  const running = view.run !== null
  // Until the owner is known, guess what is most likely: operators mostly read the conversations of others.
  const mine = view.owner ? view.owner === me.user : me.keyless || !maySeeTenant(me)
  const chooseModel = async (model: string) => {
    await enqueueRequest(id, () => requestJson("PUT", `conversations/${encodeURIComponent(id)}`, { model }))
  }
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
  const knownTitle = useRef("")
  useEffect(() => {
    if (knownTitle.current && knownTitle.current !== view.title) notifyConversationsChanged() // the model has written one
    knownTitle.current = view.title
  }, [view.title])
  const waiting = useMemo(() => listWaitingCalls(view), [view])
  useEffect(() => void loadOpenRuns(), [running, waiting.length]) // what this page sees first, the rest of it shows at once
  const budget = view.run?.budget ?? ""
  const waitsFor = budget ? t("chat.budget", { name: budget }) : waiting.length ? describeWait(waiting, me, view.owner || me.user, t) : ""
  const mayDecide = mine || me.roles.includes("approver")
  const [failed, fail, clear] = useProblem()
  const chips = useChips(view.settings)
  const idle = mine && !running && view.queue.length === 0
  const actions = useMemo(() => (idle ? createActions(store, fail, clear) : null), [idle, store, fail, clear])
  const feedback = useQuery<FeedbackList>(mine && status === "ready" ? `conversations/${encodeURIComponent(id)}/feedback` : null)
  const context = useMemo(() => ({ conversation: id, send: mine ? send : null, write, mayDecide, actions, feedback: feedback.data?.feedback ?? null, refetchFeedback: feedback.refetch }), [id, send, write, mine, mayDecide, actions, feedback.data, feedback.refetch])
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
        <Toolbar conversation={id} view={view} mine={mine} waitsFor={waitsFor} onFind={() => setFinding(true)} />
        {finding && <FindBar key={`${item}/${find}`} view={view} initial={{ find, item }} show={show} onClose={() => setFinding(false)} />}
        <Thread view={view} loading={status === "loading"} sent={sent} target={target} />
        <div className="chat-foot">
          {status === "away" && (
            <p className="banner" role="status">
              {t("chat.reconnecting")}
            </p>
          )}
          {mayDecide && !hasUnjudgedCalls(view) && <ApproveAll conversation={id} calls={waiting.filter((call) => call.phase === "asking" && !call.terms && !call.parent)} />}
          <ProblemText text={failed} />
          {mine ? <Composer key={id} conversation={id} model={view.model} introduced={isIntroduced(view)} insertion={insertion} spending={view.spending} send={send} stop={running ? stop : undefined} stopping={view.run?.stopping ?? false} chips={<SettingChips chips={chips} onOpen={() => runCommand("settings")} />} controls={<ModelPicker model={view.model} onChoose={chooseModel} />} /> : view.owner && <p className="hint">{t("chat.readOnly", { user: view.owner })}</p>}
        </div>
        <Announcer view={view} waiting={budget ? 1 : waiting.length} waitsFor={waitsFor} />
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
    retry: (message, model = "") => void run(() => branch(id, message, "", getEnd(), { added: [], model })),
    resend: (after, text, files) => run(() => branch(id, after, text, getEnd(), files)),
    show: (head) => void run(() => rewind(id, head)),
    remove: (message) => void run(() => deleteMessage(id, message)),
  }
}
