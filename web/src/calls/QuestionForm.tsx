// A question that a call has asked: the form that came with it, to be answered, declined or left.
import { useState } from "react"
import { useConversation } from "../state/conversationContext"
import { isLink } from "../urls"
import { SchemaForm } from "../components/SchemaForm"
import type { Schema } from "../components/schemaFields"
import type { CallView } from "../state/view"
import { ask, part, said } from "../wire/http"
import { useSay } from "../locales"

const NOTHING = {}

export function QuestionForm({ call }: { call: CallView }) {
  const say = useSay()
  const { conversation } = useConversation()
  const question = call.parked?.question ?? {}
  const schema = (question["requestedSchema"] ?? {}) as Schema
  const [content, setContent] = useState<Record<string, unknown> | null>({})
  const [problem, setProblem] = useState("")
  const [busy, setBusy] = useState(false)
  const reply = async (reply: "accepted" | "declined" | "cancelled") => {
    setBusy(true)
    try {
      const body = reply === "accepted" ? { content: content ?? {}, reply } : { reply }
      await ask("POST", `conversations/${part(conversation)}/calls/${part(call.id)}/answer`, body)
    } catch (error) {
      setProblem(said(error))
      setBusy(false)
    }
  }
  return (
    <form
      className="approval"
      onSubmit={(event) => {
        event.preventDefault()
        void reply("accepted")
      }}
    >
      <p className="approval-title">
        <strong>{say("question.title", { tool: call.call.tool })}</strong>
      </p>
      <p className="about">{String(question["message"] ?? "")}</p>
      {typeof question["url"] === "string" && isLink(question["url"]) ? (
        <a href={question["url"]} target="_blank" rel="noopener noreferrer">
          {question["url"]}
        </a>
      ) : (
        <SchemaForm schema={schema} value={NOTHING} onChange={setContent} />
      )}
      {typeof question["problem"] === "string" && <p className="problem">{question["problem"]}</p>}
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      <div className="approval-actions">
        <button className="primary" disabled={busy || !content}>
          {say("question.answer")}
        </button>
        <button type="button" disabled={busy} onClick={() => void reply("declined")}>
          {say("question.decline")}
        </button>
        <button type="button" className="quiet" disabled={busy} onClick={() => void reply("cancelled")}>
          {say("question.cancel")}
        </button>
      </div>
    </form>
  )
}
