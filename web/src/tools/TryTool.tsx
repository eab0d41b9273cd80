// Try a tool by hand. The call is a run of a conversation of its own, so it is judged, followed and traced like any other.
import { useEffect, useMemo, useState, useSyncExternalStore, type FormEvent } from "react"
import { CallCard } from "../calls/CallCard"
import { ConversationContext } from "../state/conversationContext"
import { SchemaForm } from "../components/SchemaForm"
import type { Schema } from "../components/schemaFields"
import { conversationsChanged } from "../state/conversations"
import { following } from "../state/conversationStore"
import type { CallView, View } from "../state/view"
import { Refusal, ask, part, said } from "../wire/http"
import type { Called, ConversationAnswer, ToolCard } from "../wire/types"
import { useSay, type Say } from "../locales"

const KEPT_AS = "toolyard.tried"

export function TryTool({ tool, ran }: { tool: ToolCard; ran: () => void }) {
  const say = useSay()
  const [value, setValue] = useState<Record<string, unknown> | null>({})
  const [called, setCalled] = useState<{ conversation: string; call: string } | null>(null)
  const [problem, setProblem] = useState("")
  const [busy, setBusy] = useState(false)
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setProblem("")
    try {
      setCalled(await callByHand(tool.name, value ?? {}, say))
    } catch (error) {
      setProblem(said(error))
    } finally {
      setBusy(false)
    }
  }
  return (
    <section className="try">
      <h3>{say("tools.try")}</h3>
      <form onSubmit={submit}>
        <SchemaForm schema={tool.parameters as Schema} value={{}} onChange={setValue} />
        {problem && (
          <p className="problem" role="alert">
            {problem}
          </p>
        )}
        <button className="primary" disabled={busy || value === null}>
          {say("tools.call", { tool: tool.name })}
        </button>
      </form>
      {called && <Outcome key={called.call} conversation={called.conversation} call={called.call} ran={ran} />}
    </section>
  )
}

function Outcome({ conversation, call, ran }: { conversation: string; call: string; ran: () => void }) {
  const source = useMemo(() => following(conversation), [conversation])
  const { view } = useSyncExternalStore(source.subscribe, source.snapshot)
  const context = useMemo(() => ({ conversation, send: null, decides: true }), [conversation])
  const found = callIn(view, call)
  const [phase, runs] = [found?.phase, view.run !== null]
  useEffect(() => {
    if (phase) ran()
  }, [phase, runs, ran])
  return <ConversationContext value={context}>{found && <CallCard call={found} opened />}</ConversationContext>
}

function callIn(view: View, id: string): CallView | null {
  for (const row of view.rows.toReversed()) {
    const found = row.kind === "turn" && row.parts.find((one) => one.id === id)
    if (found && found.kind === "call") return found.call
  }
  return null
}

async function callByHand(tool: string, args: Record<string, unknown>, say: Say): Promise<{ conversation: string; call: string }> {
  const kept = sessionStorage.getItem(KEPT_AS)
  if (kept) {
    try {
      return { conversation: kept, call: await call(kept, tool, args) }
    } catch (error) {
      if (!(error instanceof Refusal) || error.status !== 404) throw error
    }
  }
  const made = await ask<ConversationAnswer>("POST", "conversations", { title: say("tools.tried") })
  sessionStorage.setItem(KEPT_AS, made.conversation.id)
  conversationsChanged()
  return { conversation: made.conversation.id, call: await call(made.conversation.id, tool, args) }
}

async function call(conversation: string, tool: string, args: Record<string, unknown>): Promise<string> {
  return (await ask<Called>("POST", `conversations/${part(conversation)}/calls`, { tool, arguments: args })).call_id
}
