// A form that calls a tool by hand. The call is a run of a conversation of its own, so it is judged and traced like any other.
import { useEffect, useMemo, useState, useSyncExternalStore, type FormEvent } from "react"
import { CallCard } from "../calls/CallCard"
import { ConversationContext } from "../state/conversationContext"
import { SchemaForm } from "../components/SchemaForm"
import type { Schema } from "../components/schemaFields"
import { ProblemText } from "../components/ProblemText"
import { notifyConversationsChanged } from "../state/conversations"
import { getConversationStore } from "../state/conversationStore"
import type { CallView, ConversationView } from "../state/view"
import { HttpError, requestJson } from "../wire/http"
import { useProblem } from "../wire/useProblem"
import type { DirectCallAnswer, ConversationAnswer, ToolCard } from "../wire/types"
import { useTranslate, type Translate } from "../locales"

const CONVERSATION_STORAGE = "toolyard.tried"

export function TryTool({ tool, onCallChanged }: { tool: ToolCard; onCallChanged: () => void }) {
  const t = useTranslate()
  const [value, setValue] = useState<Record<string, unknown> | null>({})
  const [called, setCalled] = useState<{ conversation: string; call: string } | null>(null)
  const [problem, fail, clear] = useProblem()
  const [busy, setBusy] = useState(false)
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    clear()
    try {
      setCalled(await callByHand(tool.name, value ?? {}, t))
    } catch (error) {
      fail(error)
    } finally {
      setBusy(false)
    }
  }
  return (
    <section className="try">
      <h2>{t("tools.try")}</h2>
      <form onSubmit={submit}>
        <SchemaForm schema={tool.parameters as Schema} value={{}} onChange={setValue} />
        <ProblemText text={problem} />
        <button className="primary" disabled={busy || value === null}>
          {t("tools.call", { tool: tool.name })}
        </button>
      </form>
      {called && <Outcome key={called.call} conversation={called.conversation} call={called.call} onCallChanged={onCallChanged} />}
    </section>
  )
}

function Outcome({ conversation, call, onCallChanged }: { conversation: string; call: string; onCallChanged: () => void }) {
  const store = useMemo(() => getConversationStore(conversation), [conversation])
  const { view } = useSyncExternalStore(store.subscribe, store.getSnapshot)
  const context = useMemo(() => ({ conversation, send: null, mayDecide: true, actions: null }), [conversation])
  const callView = findCall(view, call)
  const [phase, running] = [callView?.phase, view.run !== null]
  useEffect(() => {
    if (phase) onCallChanged()
  }, [phase, running, onCallChanged])
  return <ConversationContext value={context}>{callView && <CallCard call={callView} opened />}</ConversationContext>
}

function findCall(view: ConversationView, id: string): CallView | null {
  for (const row of view.rows.toReversed()) {
    const part = row.kind === "turn" && row.parts.find((candidate) => candidate.id === id)
    if (part && part.kind === "call") return part.call
  }
  return null
}

/** Call the tool in the conversation that this tab used before, or in a new one if it was deleted since. */
async function callByHand(tool: string, args: Record<string, unknown>, t: Translate): Promise<{ conversation: string; call: string }> {
  const stored = sessionStorage.getItem(CONVERSATION_STORAGE)
  if (stored) {
    try {
      return { conversation: stored, call: await requestCall(stored, tool, args) }
    } catch (error) {
      if (!(error instanceof HttpError) || error.status !== 404) throw error
    }
  }
  const { conversation } = await requestJson<ConversationAnswer>("POST", "conversations", { title: t("tools.triedTitle") })
  sessionStorage.setItem(CONVERSATION_STORAGE, conversation.id)
  notifyConversationsChanged()
  return { conversation: conversation.id, call: await requestCall(conversation.id, tool, args) }
}

/** Return the id of the new call. */
async function requestCall(conversation: string, tool: string, args: Record<string, unknown>): Promise<string> {
  return (await requestJson<DirectCallAnswer>("POST", `conversations/${encodeURIComponent(conversation)}/calls`, { tool, arguments: args })).call_id
}
