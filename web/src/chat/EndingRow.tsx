import { CircleAlert, CircleSlash, Hourglass } from "lucide-react"
import type { RunEnding } from "../state/view"
import { describeEndingDetail } from "../locales/endingDetails"
import { buildHref } from "../route"
import { useTranslate } from "../locales"
import { useConversation } from "../state/conversationContext"

const ICONS = { limit: Hourglass, cancelled: CircleSlash, failed: CircleAlert, done: CircleSlash }

/** The end of a run that was not simply done, with a button to continue where a limit ended it. */
export function EndingRow({ row, last }: { row: RunEnding; last: boolean }) {
  const t = useTranslate()
  const { send } = useConversation()
  const Icon = ICONS[row.ending]
  if (row.ending === "cancelled") {
    if (row.detail === "withdrawn") return null // the next message replaced it before it started
    return (
      <p className="note">
        <Icon aria-hidden /> {t("ending.cancelled")}
      </p>
    )
  }
  return (
    <div className="ending" data-ending={row.ending} role={row.ending === "failed" ? "alert" : undefined}>
      <Icon aria-hidden />
      <div>
        <strong>{t(row.ending === "limit" ? "ending.limit" : "ending.failed")}</strong>
        <p>{row.message || describeEndingDetail(row.detail, t)}</p>
        {row.message && row.detail && <small>{describeEndingDetail(row.detail, t)}</small>}
      </div>
      <div className="ending-actions">
        {row.correlationId && <a href={buildHref("traces", row.correlationId)}>{t("chat.trace")}</a>}
        {row.ending === "limit" && last && send && (
          <button className="primary" onClick={() => void send(t("ending.continueText"))}>
            {t("ending.continue")}
          </button>
        )}
      </div>
    </div>
  )
}
