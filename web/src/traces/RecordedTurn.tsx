// The exact request and response of a model turn, if the server records them.
import { mayReadRecordedTurns, useMe } from "../session/caller"
import { CopyButton } from "../components/CopyButton"
import { JsonView } from "../components/JsonView"
import type { RecordedTurn, RecordedTurnAnswer } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { useTranslate } from "../locales"

export function RecordedTurn({ conversation, run, turn }: { conversation: string; run: string; turn: number }) {
  const t = useTranslate()
  const me = useMe()
  const mayRead = me.keeps_requests && mayReadRecordedTurns(me)
  const { data, problem } = useQuery<RecordedTurnAnswer>(mayRead ? `conversations/${encodeURIComponent(conversation)}/runs/${encodeURIComponent(run)}/turns/${turn}` : null)
  if (!me.keeps_requests) return <small>{t("traces.notRecorded")}</small>
  if (!data) return <small>{problem}</small>
  return (
    <>
      <p className="facts">
        <code>{data.turn.url}</code>
        <CopyButton text={buildCurl(data.turn)} label={t("traces.curl")} />
      </p>
      <details open>
        <summary>{t("traces.request")}</summary>
        <JsonView value={data.turn.request} />
      </details>
      <details>
        <summary>{t("traces.response")}</summary>
        <JsonView value={data.turn.response} />
      </details>
    </>
  )
}

/** Return the request as a shell command. The server leaves secrets out of the headers; the user fills them in. */
export function buildCurl(turn: RecordedTurn): string {
  const body = typeof turn.request === "string" ? turn.request : JSON.stringify(turn.request)
  const headers = { "Content-Type": "application/json", ...turn.headers }
  const options = Object.entries(headers).map(([name, value]) => `-H ${quoteForShell(`${name}: ${value}`)}`)
  return ["curl -N", quoteForShell(turn.url), ...options, "-d", quoteForShell(body)].join(" ")
}

function quoteForShell(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
