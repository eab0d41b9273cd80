// A question that an MCP server asks during a call (elicitation): its form can be answered, declined or cancelled.
import { useState } from "react"
import { useConversation } from "../state/conversationContext"
import { isWebLink } from "../components/urls"
import { SchemaForm } from "../components/SchemaForm"
import type { Schema } from "../components/schemaFields"
import { ProblemText } from "../components/ProblemText"
import type { CallView } from "../state/view"
import { requestJson } from "../wire/http"
import { useProblem } from "../wire/useProblem"
import { useTranslate } from "../locales"

const NO_VALUES = {}

export function QuestionForm({ call, name }: { call: CallView; name: string }) {
  const t = useTranslate()
  const { conversation } = useConversation()
  const question = call.parked?.question ?? {}
  const schema = (question["requestedSchema"] ?? {}) as Schema
  const [content, setContent] = useState<Record<string, unknown> | null>({})
  const [problem, fail, clear] = useProblem()
  const [busy, setBusy] = useState(false)
  const reply = async (reply: "accepted" | "declined" | "cancelled") => {
    setBusy(true)
    clear()
    try {
      const body = reply === "accepted" ? { content: content ?? {}, reply } : { reply }
      await requestJson("POST", `conversations/${encodeURIComponent(conversation)}/calls/${encodeURIComponent(call.id)}/answer`, body)
    } catch (error) {
      fail(error)
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
        <strong>{t("question.title", { tool: name })}</strong>
      </p>
      <p className="about">{String(question["message"] ?? "")}</p>
      {typeof question["url"] === "string" && isWebLink(question["url"]) ? (
        <a href={question["url"]} target="_blank" rel="noopener noreferrer">
          {question["url"]}
        </a>
      ) : (
        <SchemaForm schema={schema} value={NO_VALUES} onChange={setContent} />
      )}
      {typeof question["problem"] === "string" && <p className="problem">{question["problem"]}</p>}
      <ProblemText text={problem} />
      <div className="approval-actions">
        <button className="primary" disabled={busy || !content}>
          {t("question.answer")}
        </button>
        <button type="button" disabled={busy} onClick={() => void reply("declined")}>
          {t("question.decline")}
        </button>
        <button type="button" className="quiet" disabled={busy} onClick={() => void reply("cancelled")}>
          {t("question.cancel")}
        </button>
      </div>
    </form>
  )
}
