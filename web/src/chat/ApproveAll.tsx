import { CheckCheck } from "lucide-react"
import { useState } from "react"
import type { CallView } from "../state/view"
import { ask, part, said } from "../wire/http"
import { useSay } from "../locales"

/** Where several calls wait for a yes: one for all of them, as they are. */
export function ApproveAll({ conversation, calls }: { conversation: string; calls: CallView[] }) {
  const say = useSay()
  const [problem, setProblem] = useState("")
  if (calls.length < 2) return null
  const approve = async () => {
    const asked = calls.map((call) => ask("POST", `conversations/${part(conversation)}/calls/${part(call.id)}/approve`, {}))
    const failed = (await Promise.allSettled(asked)).find((one) => one.status === "rejected")
    setProblem(failed ? said(failed.reason) : "")
  }
  return (
    <div className="approve-all">
      <span>{problem || say("ask.several", { n: calls.length })}</span>
      <button onClick={() => void approve()}>
        <CheckCheck aria-hidden /> {say("ask.approveAll")}
      </button>
    </div>
  )
}
