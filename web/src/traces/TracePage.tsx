import { ArrowLeft } from "lucide-react"
import { Copy } from "../components/CopyButton"
import { inWords } from "../locales/endingDetails"
import { count, duration, moment } from "../format"
import { hrefOf } from "../route"
import { address, part } from "../wire/http"
import type { Trace, TraceAnswer } from "../wire/types"
import { useAnswer } from "../wire/useQuery"
import { useMe } from "../caller"
import { useLanguage, useSay } from "../locales"
import { costOf } from "./cost"
import { StatusPill } from "./StatusPill"
import { Waterfall } from "./Waterfall"

const LOOK_EVERY_MS = 2000

export function TracePage({ id }: { id: string }) {
  const say = useSay()
  const me = useMe()
  const path = `traces/${part(id)}`
  const answered = useAnswer<TraceAnswer>(path, LOOK_EVERY_MS)
  const curl = `curl ${me.keyless ? "" : '-H "Authorization: Bearer $TOOLYARD_KEY" '}${address(path)}`
  return (
    <div className="page">
      <a className="back" href={hrefOf("traces")}>
        <ArrowLeft aria-hidden /> {say("traces.back")}
      </a>
      <header className="page-head">
        <h1 className="mono-title">{id}</h1>
        <Copy text={id} />
        <Copy text={curl} label={say("traces.curl")} />
      </header>
      {answered.problem && !answered.data && <p className="problem">{answered.problem}</p>}
      {answered.data?.runs.map((run) => <RunTrace key={run.run_id} run={run} />)}
    </div>
  )
}

function RunTrace({ run }: { run: Trace }) {
  const say = useSay()
  const language = useLanguage()
  const me = useMe()
  const cost = costOf(run, me.prices, language)
  const { input_tokens: input = 0, output_tokens: output = 0 } = run.usage
  return (
    <section className="run-trace" aria-label={run.run_id}>
      <header>
        <StatusPill status={run.ending ?? run.status} />
        <strong>{moment(run.queued_at, language)}</strong>
        <span>{run.user}</span>
        <span>{run.model}</span>
        <span>{run.ended_at === null ? say("traces.goesOn") : duration((run.ended_at - run.queued_at) * 1000)}</span>
        <span>{say("traces.inOut", { input: count(input, language), output: count(output, language) })}</span>
        {cost !== null && <span>{cost}</span>}
        <a href={hrefOf("chat", run.conversation)}>{say("traces.conversation")}</a>
      </header>
      {run.detail && <p className={run.ending === "failed" ? "problem" : "about"}>{inWords(run.detail, say)}</p>}
      <Waterfall trace={run} />
    </section>
  )
}
