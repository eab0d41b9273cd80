import { CheckCheck } from "lucide-react"
import type { CallView } from "../state/view"
import { decideCalls } from "../calls/decideCalls"
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
  const approve = () => void decideCalls(conversation, calls, "approve").then(clear, fail)
  return (
    <div className="approve-all">
      {problem ? (
        <span className="problem" role="alert">
          {problem}
        </span>
      ) : (
        <span>{t("ask.several", { n: calls.length })}</span>
      )}
      <button onClick={approve}>
        <CheckCheck aria-hidden /> {t("ask.approveAll")}
      </button>
    </div>
  )
}
