import { useCallback, useEffect, useMemo, useSyncExternalStore } from "react"
import { maySeeTenant, useMe } from "../caller"
import { conversationsChanged } from "../state/conversations"
import { following } from "../state/conversationStore"
import { sendMessage } from "../state/messages"
import { isJudging, waitingCalls } from "../state/view"
import { ask, part } from "../wire/http"
import { useTitle } from "../title"
import { useSay } from "../locales"
import { ApproveAll } from "./ApproveAll"
import { Composer } from "./Composer"
import { ConversationContext } from "../state/conversationContext"
import { Announcer } from "./Announcer"
import { Thread } from "./Thread"
import { Toolbar } from "./Toolbar"

/** Closes a menu or a dialog, empties a search, or ends the writing of a character. */
function isForAnother(event: KeyboardEvent): boolean {
  const isSearch = event.target instanceof HTMLInputElement && event.target.type === "search"
  return event.defaultPrevented || event.isComposing || isSearch || document.querySelector("dialog[open], .popup, [data-menu=open]") !== null
}

export function Conversation({ id }: { id: string }) {
  const say = useSay()
  const me = useMe()
  const source = useMemo(() => following(id), [id])
  const { view, status, problem } = useSyncExternalStore(source.subscribe, source.snapshot)
  const send = useCallback((text: string) => sendMessage(id, text), [id])
  useTitle(view.title)
  const running = view.run !== null
  const mine = view.owner ? view.owner === me.user : me.keyless || !maySeeTenant(me)
  const stop = useCallback(() => void ask("POST", `conversations/${part(id)}/cancel`, {}).catch(() => undefined), [id])
  useEffect(() => {
    if (!running) return conversationsChanged()
    if (!mine) return
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape" && !isForAnother(event)) stop()
    }
    addEventListener("keydown", onKey)
    return () => removeEventListener("keydown", onKey)
  }, [running, mine, stop])
  const waiting = useMemo(() => waitingCalls(view), [view])
  const decides = mine || me.roles.includes("approver")
  const context = useMemo(() => ({ conversation: id, send: mine ? send : null, decides }), [id, send, mine, decides])
  if (status === "gone") {
    return (
      <div className="chat chat-new">
        <p className="greeting" title={problem}>
          {say("chat.gone")}
        </p>
      </div>
    )
  }
  return (
    <ConversationContext value={context}>
      <div className="chat">
        <Toolbar conversation={id} view={view} mine={mine} />
        <Thread view={view} loading={status === "loading"} />
        <div className="chat-foot">
          {status === "away" && (
            <p className="banner" role="status">
              {say("chat.reconnecting")}
            </p>
          )}
          {decides && !isJudging(view) && <ApproveAll conversation={id} calls={waiting.filter((call) => call.phase === "asking")} />}
          {mine ? <Composer send={send} stop={running ? stop : undefined} stopping={view.run?.stopping ?? false} /> : view.owner && <p className="hint">{say("chat.readOnly", { user: view.owner })}</p>}
        </div>
        <Announcer view={view} waiting={waiting.length} />
      </div>
    </ConversationContext>
  )
}
