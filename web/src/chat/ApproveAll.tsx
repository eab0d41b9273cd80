import { CheckCheck } from "lucide-react"
import type { CallView } from "../state/view"
import { requestJson } from "../wire/http"
import { useProblem } from "../wire/useProblem"
import { useTranslate } from "../locales"

/**
 * A button that approves the waiting calls with their arguments as they are, if there are several.
 *
 * It leaves out calls after content that strangers may have written: a person has to look at each of them.
 */
export function ApproveAll({ conversation, calls: waiting }: { conversation: string; calls: CallView[] }) {
  const t = useTranslate()
  const [problem, fail, clear] = useProblem()
  const calls = waiting.filter((call) => !call.sources?.length)
  if (calls.length < 2) return null
  const approve = async () => {
    const requests = calls.map((call) => requestJson("POST", `conversations/${encodeURIComponent(conversation)}/calls/${encodeURIComponent(call.id)}/approve`, {}))
    const failed = (await Promise.allSettled(requests)).find((outcome) => outcome.status === "rejected")
    if (failed) fail(failed.reason)
    else clear()
  }
  return (
    <div className="approve-all">
      {problem ? (
        <span className="problem" role="alert">
          {problem}
        </span>
      ) : (
        <span>{t("ask.several", { n: calls.length })}</span>
      )}
      <button onClick={() => void approve()}>
        <CheckCheck aria-hidden /> {t("ask.approveAll")}
      </button>
    </div>
  )
}
