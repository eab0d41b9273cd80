// Thumbs for an answer, with a note. They are kept with the run of the answer; no model is shown them.
import { ThumbsDown, ThumbsUp } from "lucide-react"
import { useState, type FormEvent } from "react"
import { useTranslate } from "../../locales"
import { useConversation } from "../../state/conversationContext"
import { requestJson } from "../../wire/http"
import type { RunFeedback } from "../../wire/types"
import { useProblem } from "../../wire/useProblem"

type Rating = RunFeedback["rating"]
const THUMBS = { up: ThumbsUp, down: ThumbsDown }

export function Feedback({ run }: { run: string }) {
  const t = useTranslate()
  const { conversation, feedback, refetchFeedback } = useConversation()
  const given = feedback?.[run]
  const [asking, setAsking] = useState(false)
  /** The note while it is written; null as long as it is the one that was given. */
  const [edited, setEdited] = useState<string | null>(null)
  const note = edited ?? given?.note ?? ""
  const [problem, fail, clear] = useProblem()
  if (!feedback) return null
  const path = `conversations/${encodeURIComponent(conversation)}/runs/${encodeURIComponent(run)}/feedback`
  const change = async (work: Promise<unknown>, ask: boolean) => {
    clear()
    try {
      await work
      refetchFeedback?.()
      setAsking(ask)
      if (!ask) setEdited(null)
    } catch (error) {
      fail(error)
    }
  }
  const rate = (rating: Rating) => void (given?.rating === rating && !asking ? change(requestJson("DELETE", path), false) : change(requestJson("PUT", path, { rating, note: note.trim() }), true))
  const save = (event: FormEvent) => {
    event.preventDefault()
    if (given) void change(requestJson("PUT", path, { rating: given.rating, note: note.trim() }), false)
  }
  return (
    <>
      {(["up", "down"] as const).map((rating) => {
        const Icon = THUMBS[rating]
        return (
          <button key={rating} type="button" className="quiet thumb" aria-pressed={given?.rating === rating} aria-label={t(`feedback.${rating}`)} title={t(`feedback.${rating}`)} onClick={() => rate(rating)}>
            <Icon aria-hidden />
          </button>
        )
      })}
      {asking && given && (
        <form className="feedback-note" onSubmit={save}>
          <input aria-label={t("feedback.note")} placeholder={t("feedback.note")} autoFocus maxLength={2000} value={note} onChange={(event) => setEdited(event.target.value)} />
          <button>{t("common.save")}</button>
        </form>
      )}
      {!asking && given?.note && <small className="feedback-given">{given.note}</small>}
      {problem && (
        <span className="problem" role="alert">
          {problem}
        </span>
      )}
    </>
  )
}
