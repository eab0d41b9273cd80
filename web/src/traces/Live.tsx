// What runs or waits now, with a way to stop it.
import { Square } from "lucide-react"
import { useState } from "react"
import { Whose, useEveryone } from "../components/OwnerFilter"
import { relative } from "../format"
import { hrefOf } from "../route"
import { ask, part, said } from "../wire/http"
import type { LiveAnswer, OpenRun } from "../wire/types"
import { useAnswer } from "../wire/useQuery"
import { useLanguage, useSay, type Word } from "../locales"
import { StatusPill } from "./StatusPill"

const LOOK_EVERY_MS = 1500

export default function Live() {
  const say = useSay()
  const [everyone, setEveryone] = useState(useEveryone())
  const { data, problem, again } = useAnswer<LiveAnswer>(`live${everyone ? "?whose=tenant" : ""}`, LOOK_EVERY_MS)
  return (
    <div className="page">
      <header className="page-head">
        <h1>{say("live.title")}</h1>
        <Whose everyone={everyone} onChange={setEveryone} />
      </header>
      {problem && !data && <p className="problem">{problem}</p>}
      {data?.count === 0 && <p className="empty">{say("live.none")}</p>}
      <ul className="cards">
        {data?.runs.map((run) => (
          <OpenRunCard key={run.run_id} run={run} changed={again} />
        ))}
      </ul>
    </div>
  )
}

function OpenRunCard({ run, changed }: { run: OpenRun; changed: () => void }) {
  const say = useSay()
  const language = useLanguage()
  const [problem, setProblem] = useState("")
  const stop = () => {
    ask("POST", `conversations/${part(run.conversation)}/cancel`, {}).then(changed, (error: unknown) => setProblem(said(error)))
  }
  return (
    <li className="card">
      <header>
        <StatusPill status={run.status} />
        <a href={hrefOf("chat", run.conversation)}>{run.title || say("list.untitled")}</a>
        <span className="grow" />
        {run.may_stop && (
          <button onClick={stop} aria-label={`${say("chat.stop")}: ${run.title}`}>
            <Square aria-hidden /> {say("chat.stop")}
          </button>
        )}
      </header>
      <p className="facts">
        <span>{run.user}</span>
        <span>{run.model}</span>
        <span>{say("live.since", { when: relative(run.started_at, Date.now() / 1000, language) })}</span>
        {run.queued > 0 && <span>{say("live.inLine", { n: run.queued })}</span>}
        <a href={hrefOf("traces", run.correlation_id)}>{say("chat.trace")}</a>
      </p>
      {run.calls.length > 0 && (
        <ul className="open-calls">
          {run.calls.map((call) => (
            <li key={call.id}>
              <code>{call.tool}</code> <span className={call.phase === "asking" || call.phase === "parked" ? "pill asking" : "pill"}>{say(`phase.${call.phase}` as Word)}</span>
            </li>
          ))}
        </ul>
      )}
      {problem && <p className="problem">{problem}</p>}
    </li>
  )
}
