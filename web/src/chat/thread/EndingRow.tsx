import { CircleAlert, CircleSlash, Hourglass, RefreshCw } from "lucide-react"
import type { RunEnding } from "../../state/view"
import { describeEndingDetail } from "../../locales/endingDetails"
import { buildHref } from "../../app/route"
import { useTranslate } from "../../locales"
import { useConversation } from "../../state/conversationContext"
import { SpentLine } from "../SpentLine"

const ICONS = { limit: Hourglass, cancelled: CircleSlash, failed: CircleAlert, done: CircleSlash }

interface EndingRowProps {
  row: RunEnding
  last: boolean
  /** The message that the run was to answer; empty if it had none. */
  retryOf: string
  /** The end of the branch that was shown before this run; empty if there is none. */
  continuation: string
}

/** The end of a run that was not simply done, with buttons to have its message answered again, or to go on after a limit. */
export function EndingRow({ row, last, retryOf, continuation }: EndingRowProps) {
  const t = useTranslate()
  const { send, actions } = useConversation()
  const retry = last && actions && (
    <>
      {continuation && (
        <button className="quiet" onClick={() => actions.show(continuation)}>
          {t("message.back")}
        </button>
      )}
      {retryOf && (
        <button onClick={() => actions.retry(retryOf)}>
          <RefreshCw aria-hidden /> {t("message.retry")}
        </button>
      )}
    </>
  )
  const Icon = ICONS[row.ending]
  if (row.ending === "cancelled") {
    if (row.detail === "withdrawn") return null // the next message replaced it before it started
    return (
      <div className="note">
        <Icon aria-hidden /> <span>{t("ending.cancelled")}</span> <SpentLine of="answer" spending={row.spending} /> {retry}
      </div>
    )
  }
  return (
    <div className="ending" data-ending={row.ending} role={row.ending === "failed" ? "alert" : undefined}>
      <Icon aria-hidden />
      <div>
        <strong>{t(row.ending === "limit" ? "ending.limit" : "ending.failed")}</strong>
        <p>{row.message || describeEndingDetail(row.detail, t)}</p>
        {row.message && row.detail && <small>{describeEndingDetail(row.detail, t)}</small>}
        <SpentLine of="answer" spending={row.spending} />
      </div>
      <div className="ending-actions">
        {row.correlationId && <a href={buildHref("traces", row.correlationId)}>{t("chat.trace")}</a>}
        {retry}
        {row.ending === "limit" && last && send && (
          <button className="primary" onClick={() => void send(t("ending.continueText"))}>
            {t("ending.continue")}
          </button>
        )}
      </div>
    </div>
  )
}
