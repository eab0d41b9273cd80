import { ArrowLeft } from "lucide-react"
import { CopyButton } from "../components/CopyButton"
import { describeEndingDetail } from "../locales/endingDetails"
import { formatCount, formatDuration, formatDateTime } from "../app/format"
import { buildHref } from "../app/route"
import { resolveUrl } from "../wire/http"
import type { RunFeedback, Trace, TraceAnswer } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { useMe } from "../session/caller"
import { useLanguage, useTranslate } from "../locales"
import { toTraceSpending } from "../state/spending"
import { describeCost } from "../usage/describeSpending"
import { StatusPill } from "./StatusPill"
import { Waterfall } from "./Waterfall"

const POLL_MS = 2000

export function TracePage({ id }: { id: string }) {
  const t = useTranslate()
  const me = useMe()
  const path = `traces/${encodeURIComponent(id)}`
  const query = useQuery<TraceAnswer>(path, POLL_MS)
  const curl = `curl ${me.keyless ? "" : '-H "Authorization: Bearer $TOOLYARD_KEY" '}${resolveUrl(path)}`
  return (
    <div className="page">
      <a className="back" href={buildHref("traces")}>
        <ArrowLeft aria-hidden /> {t("traces.back")}
      </a>
      <header className="page-head">
        <h1 className="mono-title">{id}</h1>
        <CopyButton text={id} />
        <CopyButton text={curl} label={t("traces.curl")} />
      </header>
      {query.problem && !query.data && <p className="problem">{query.problem}</p>}
      {query.data?.runs.map((run) => <RunTrace key={run.run_id} run={run} feedback={query.data?.feedback[run.run_id]} />)}
    </div>
  )
}

function RunTrace({ run, feedback }: { run: Trace; feedback: RunFeedback | undefined }) {
  const t = useTranslate()
  const language = useLanguage()
  const cost = describeCost(toTraceSpending(run), language)
  const { input_tokens: input = 0, output_tokens: output = 0 } = run.usage
  return (
    <section className="run-trace" aria-label={run.run_id}>
      <header>
        <StatusPill status={run.ending ?? run.status} />
        <strong>{formatDateTime(run.queued_at, language)}</strong>
        <span>{run.user}</span>
        <span>{run.model}</span>
        <span>{run.ended_at === null ? t("traces.active") : formatDuration((run.ended_at - run.queued_at) * 1000)}</span>
        <span>{t("traces.inOut", { input: formatCount(input, language), output: formatCount(output, language) })}</span>
        {cost && <span>{cost}</span>}
        <a href={buildHref("chat", run.conversation)}>{t("traces.conversation")}</a>
      </header>
      {run.detail && <p className={run.ending === "failed" ? "problem" : "about"}>{describeEndingDetail(run.detail, t)}</p>}
      {feedback && (
        <p className="hint">
          <span className={feedback.rating === "up" ? "pill ok" : "pill bad"}>{t(feedback.rating === "up" ? "feedback.up" : "feedback.down")}</span> {[feedback.by, formatDateTime(feedback.at, language), feedback.note].filter(Boolean).join(" · ")}
        </p>
      )}
      <Waterfall trace={run} />
    </section>
  )
}
