// A call that the application runs. What it shows is drawn here too; its result may be handed in by hand.
import { useState } from "react"
import { useConversation } from "../state/conversationContext"
import type { CallView } from "../state/view"
import { ask, part, said } from "../wire/http"
import { useSay } from "../locales"
import { drawingOf } from "./resultDisplay"
import { Drawn } from "./ResultView"

export function ClientCall({ call }: { call: CallView }) {
  const say = useSay()
  const { conversation } = useConversation()
  const [text, setText] = useState("")
  const [open, setOpen] = useState(false)
  const [problem, setProblem] = useState("")
  const deliver = async () => {
    try {
      await ask("POST", `conversations/${part(conversation)}/calls/${part(call.id)}/result`, { result: parsed(text) })
    } catch (error) {
      setProblem(said(error))
    }
  }
  return (
    <div className="approval">
      <p className="approval-title">
        <strong>{say("client.title", { tool: call.call.tool })}</strong>
      </p>
      <p>{say("client.about")}</p>
      <Drawn drawing={drawingOf(JSON.stringify(call.call.arguments))} />
      {open && <textarea rows={3} aria-label={say("client.result")} placeholder='{"ok": true}' value={text} onChange={(event) => setText(event.target.value)} />}
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      <div className="approval-actions">
        <button onClick={() => (open ? void deliver() : setOpen(true))}>{say("client.deliver")}</button>
        {open && (
          <button className="quiet" onClick={() => setOpen(false)}>
            {say("common.cancel")}
          </button>
        )}
      </div>
    </div>
  )
}

/** JSON if it is JSON, otherwise the text as it is. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
