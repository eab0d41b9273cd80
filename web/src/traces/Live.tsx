// The runs that are active or waiting now, with a button to stop each.
import { Square } from "lucide-react"
import { useState } from "react"
import { OwnerFilter, useTenantByDefault } from "../components/OwnerFilter"
import { formatRelative } from "../format"
import { buildHref } from "../route"
import { requestJson, describeError } from "../wire/http"
import type { LiveAnswer, OpenRun } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { useLanguage, useTranslate, type MessageKey } from "../locales"
import { StatusPill } from "./StatusPill"

const POLL_MS = 1500

export default function Live() {
  const t = useTranslate()
  const [everyone, setEveryone] = useState(useTenantByDefault())
  const { data, problem, refetch } = useQuery<LiveAnswer>(`live${everyone ? "?whose=tenant" : ""}`, POLL_MS)
  return (
    <div className="page">
      <header className="page-head">
        <h1>{t("live.title")}</h1>
        <OwnerFilter everyone={everyone} onChange={setEveryone} />
      </header>
      {problem && !data && <p className="problem">{problem}</p>}
      {data?.count === 0 && <p className="empty">{t("live.none")}</p>}
      <ul className="cards">
        {data?.runs.map((run) => (
          <OpenRunCard key={run.run_id} run={run} onChanged={refetch} />
        ))}
      </ul>
    </div>
  )
}

function OpenRunCard({ run, onChanged }: { run: OpenRun; onChanged: () => void }) {
  const t = useTranslate()
  const language = useLanguage()
  const [problem, setProblem] = useState("")
  const stop = () => {
    requestJson("POST", `conversations/${encodeURIComponent(run.conversation)}/cancel`, {}).then(onChanged, (error: unknown) => setProblem(describeError(error)))
  }
  return (
    <li className="card">
      <header>
        <StatusPill status={run.status} />
        <a href={buildHref("chat", run.conversation)}>{run.title || t("list.untitled")}</a>
        <span className="grow" />
        {run.may_stop && (
          <button onClick={stop} aria-label={`${t("chat.stop")}: ${run.title}`}>
            <Square aria-hidden /> {t("chat.stop")}
          </button>
        )}
      </header>
      <p className="facts">
        <span>{run.user}</span>
        <span>{run.model}</span>
        <span>{t("live.since", { when: formatRelative(run.started_at, Date.now() / 1000, language) })}</span>
        {run.queued > 0 && <span>{t("live.queued", { n: run.queued })}</span>}
        <a href={buildHref("traces", run.correlation_id)}>{t("chat.trace")}</a>
      </p>
      {run.calls.length > 0 && (
        <ul className="open-calls">
          {run.calls.map((call) => (
            <li key={call.id}>
              <code>{call.tool}</code> <span className={call.phase === "asking" || call.phase === "parked" ? "pill asking" : "pill"}>{t(`phase.${call.phase}` as MessageKey)}</span>
            </li>
          ))}
        </ul>
      )}
      {problem && <p className="problem">{problem}</p>}
    </li>
  )
}
