// Approves all waiting calls of one tool at once, each with a decision of its own.
import { CheckCheck } from "lucide-react"
import { nameTool } from "../components/humanize"
import { ProblemText } from "../components/ProblemText"
import { useTranslate } from "../locales"
import { loadOpenRuns } from "../state/openRuns"
import { requestJson } from "../wire/http"
import type { OpenCall, OpenRun } from "../wire/types"
import { useProblem } from "../wire/useProblem"

interface WaitingCall {
  conversation: string
  call: OpenCall
}

export function ApproveAlike({ runs, onChanged }: { runs: OpenRun[]; onChanged: () => void }) {
  const t = useTranslate()
  const [problem, fail, clear] = useProblem()
  const waiting = runs.flatMap(({ conversation, calls }) => calls.filter(isPlain).map((call) => ({ conversation, call })))
  const groups = [...Map.groupBy(waiting, ({ call }) => call.tool)].filter(([, members]) => members.length > 1)
  const approve = async (members: WaitingCall[]) => {
    clear()
    const outcomes = await Promise.allSettled(members.map(({ conversation, call }) => requestJson("POST", `conversations/${encodeURIComponent(conversation)}/calls/${encodeURIComponent(call.id)}/approve`, {})))
    const failed = outcomes.find((outcome) => outcome.status === "rejected")
    if (failed) fail(failed.reason)
    void loadOpenRuns()
    onChanged()
  }
  return (
    <>
      {groups.map(([tool, members]) => (
        <div key={tool} className="approve-all">
          <span>{t("inbox.alike", { tool: nameTool(tool, members[0]!.call.title), n: members.length })}</span>
          <button onClick={() => void approve(members)}>
            <CheckCheck aria-hidden /> {t("inbox.approveAlike", { n: members.length })}
          </button>
        </div>
      ))}
      <ProblemText text={problem} />
    </>
  )
}

/**
 * Return whether nobody has to look at a call by itself: no strangers' content, no reason to give, one decision. The calls of
 * a program are decided on its card.
 */
function isPlain({ approval, sources, terms, parent }: OpenCall): boolean {
  return approval?.may_decide === true && !parent && !sources.length && !terms?.reason_required && (terms?.quorum ?? 1) < 2
}
