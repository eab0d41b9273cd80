// What waits for the user: calls to approve and questions to answer, of the whole tenant for its approvers.
import { Bell } from "lucide-react"
import { useState } from "react"
import { useMe } from "../session/caller"
import { askForNotifications, mayAskForNotifications } from "../app/notifications"
import { waitsForUser } from "../state/openRuns"
import type { LiveAnswer } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { useTranslate } from "../locales"
import { ApproveAlike } from "./ApproveAlike"
import { DecisionHistory } from "./DecisionHistory"
import { OpenRunCard } from "./OpenRunCard"

const POLL_MS = 1500

export default function Inbox() {
  const t = useTranslate()
  const me = useMe()
  const [mayAsk, setMayAsk] = useState(mayAskForNotifications)
  const { data, problem, refetch } = useQuery<LiveAnswer>(`live?details=true${me.roles.includes("approver") ? "&whose=tenant" : ""}`, POLL_MS)
  // The user may be named as an approver of calls in conversations that they do not see.
  const deciding = useQuery<LiveAnswer>("live?details=true&whose=deciding", POLL_MS)
  const own = data?.runs.filter(waitsForUser) ?? []
  const named = deciding.data?.runs.filter((run) => !own.some((other) => other.run_id === run.run_id)) ?? []
  const runs = [...own, ...named]
  const refetchAll = () => {
    refetch()
    deciding.refetch()
  }
  return (
    <div className="page">
      <header className="page-head">
        <h1>{t("inbox.title")}</h1>
        {mayAsk && (
          <button onClick={() => void askForNotifications().finally(() => setMayAsk(false))}>
            <Bell aria-hidden /> {t("inbox.notify")}
          </button>
        )}
      </header>
      {problem && !data && <p className="problem">{problem}</p>}
      {data && runs.length === 0 && <p className="empty">{t("inbox.none")}</p>}
      <ApproveAlike runs={runs} onChanged={refetchAll} />
      <ul className="cards">
        {runs.map((run) => (
          <OpenRunCard key={run.run_id} run={run} onChanged={refetchAll} />
        ))}
      </ul>
      <DecisionHistory />
    </div>
  )
}
