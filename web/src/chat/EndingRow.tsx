import { CircleAlert, CircleSlash, Hourglass } from "lucide-react"
import type { Ending } from "../state/view"
import { inWords } from "../locales/endingDetails"
import { hrefOf } from "../route"
import { useSay } from "../locales"
import { useConversation } from "../state/conversationContext"

const ICON = { limit: Hourglass, cancelled: CircleSlash, failed: CircleAlert, done: CircleSlash }

/** How a run ended that was not simply done; from a limit one can go on. */
export function EndingRow({ row, last }: { row: Ending; last: boolean }) {
  const say = useSay()
  const { send } = useConversation()
  const Icon = ICON[row.ending]
  if (row.ending === "cancelled") {
    if (row.detail === "withdrawn") return null // the next message took its place
    return (
      <p className="note">
        <Icon aria-hidden /> {say("ending.cancelled")}
      </p>
    )
  }
  return (
    <div className="ending" data-ending={row.ending} role={row.ending === "failed" ? "alert" : undefined}>
      <Icon aria-hidden />
      <div>
        <strong>{say(row.ending === "limit" ? "ending.limit" : "ending.failed")}</strong>
        <p>{row.message || inWords(row.detail, say)}</p>
        {row.message && row.detail && <small>{inWords(row.detail, say)}</small>}
      </div>
      <div className="ending-actions">
        {row.correlationId && <a href={hrefOf("traces", row.correlationId)}>{say("chat.trace")}</a>}
        {row.ending === "limit" && last && send && (
          <button className="primary" onClick={() => void send(say("ending.goOnText"))}>
            {say("ending.goOn")}
          </button>
        )}
      </div>
    </div>
  )
}
