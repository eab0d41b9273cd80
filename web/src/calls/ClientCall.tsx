// A call that the application runs. If the application is closed, the user may enter the result instead.
import { useState } from "react"
import { ProblemText } from "../components/ProblemText"
import { useConversation } from "../state/conversationContext"
import type { CallView } from "../state/view"
import { requestJson } from "../wire/http"
import { useProblem } from "../wire/useProblem"
import { useTranslate } from "../locales"
import { chooseDisplay } from "./resultDisplay"
import { DisplayView } from "./ResultView"

export function ClientCall({ call, name }: { call: CallView; name: string }) {
  const t = useTranslate()
  const { conversation } = useConversation()
  const [text, setText] = useState("")
  const [open, setOpen] = useState(false)
  const [busy, setBusy] = useState(false)
  const [problem, fail, clear] = useProblem()
  const deliver = async () => {
    setBusy(true)
    clear()
    try {
      await requestJson("POST", `conversations/${encodeURIComponent(conversation)}/calls/${encodeURIComponent(call.id)}/result`, { result: parseJsonOrText(text) })
    } catch (error) {
      fail(error)
      setBusy(false) // after a success the form stays disabled until the entry of the result removes it
    }
  }
  return (
    <div className="approval">
      <p className="approval-title">
        <strong>{t("client.title", { tool: name })}</strong>
      </p>
      <p>{t("client.about")}</p>
      <DisplayView display={chooseDisplay(JSON.stringify(call.call.arguments))} />
      {open && <textarea rows={3} aria-label={t("client.result")} placeholder='{"ok": true}' value={text} onChange={(event) => setText(event.target.value)} />}
      <ProblemText text={problem} />
      <div className="approval-actions">
        <button disabled={busy} onClick={() => (open ? void deliver() : setOpen(true))}>{t("client.deliver")}</button>
        {open && (
          <button className="quiet" disabled={busy} onClick={() => setOpen(false)}>
            {t("common.cancel")}
          </button>
        )}
      </div>
    </div>
  )
}

/** Return the value of a text that is JSON, else the text itself. */
function parseJsonOrText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
