// The exact request and response of a model turn, where they are kept.
import { mayReadRecordedTurns, useMe } from "../caller"
import { Copy } from "../components/CopyButton"
import { Json } from "../components/JsonView"
import { part } from "../wire/http"
import type { KeptTurn as Kept, KeptTurnAnswer } from "../wire/types"
import { useAnswer } from "../wire/useQuery"
import { useSay } from "../locales"

export function KeptTurn({ conversation, run, turn }: { conversation: string; run: string; turn: number }) {
  const say = useSay()
  const me = useMe()
  const may = me.keeps_requests && mayReadRecordedTurns(me)
  const { data, problem } = useAnswer<KeptTurnAnswer>(may ? `conversations/${part(conversation)}/runs/${part(run)}/turns/${turn}` : null)
  if (!me.keeps_requests) return <small>{say("traces.notKept")}</small>
  if (!data) return <small>{problem}</small>
  return (
    <>
      <p className="facts">
        <code>{data.turn.url}</code>
        <Copy text={curlOf(data.turn)} label={say("traces.curl")} />
      </p>
      <details open>
        <summary>{say("traces.request")}</summary>
        <Json value={data.turn.request} />
      </details>
      <details>
        <summary>{say("traces.response")}</summary>
        <Json value={data.turn.response} />
      </details>
    </>
  )
}

/** The request as a line for a shell; what was secret is to be filled in. */
export function curlOf(turn: Kept): string {
  const body = typeof turn.request === "string" ? turn.request : JSON.stringify(turn.request)
  const headers = { "Content-Type": "application/json", ...turn.headers }
  const told = Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`)
  return ["curl -N", quoted(turn.url), ...told, "-d", quoted(body)].join(" ")
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
