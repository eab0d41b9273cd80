import { RefreshCw } from "lucide-react"
import { useConversation } from "../../state/conversationContext"
import { useTranslate } from "../../locales"

/** Below a last message that has no answer: buttons to have it answered, or to go back to the answer that it had. */
export function Unanswered({ message, continuation }: { message: string; continuation: string }) {
  const t = useTranslate()
  const { actions } = useConversation()
  if (!actions) return null
  return (
    <div className="note unanswered">
      <span>{t("message.unanswered")}</span>
      {continuation && (
        <button className="quiet" onClick={() => actions.show(continuation)}>
          {t("message.back")}
        </button>
      )}
      <button onClick={() => actions.retry(message)}>
        <RefreshCw aria-hidden /> {t("message.retry")}
      </button>
    </div>
  )
}
