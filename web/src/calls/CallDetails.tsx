import { Square } from "lucide-react"
import { ask, part } from "../wire/http"
import type { CallView } from "../state/view"
import { Json } from "../components/JsonView"
import { bytes, moment } from "../format"
import { useConversation } from "../state/conversationContext"
import { useLanguage, useSay } from "../locales"
import { ResultView } from "./ResultView"

export function CallDetails({ call, where }: { call: CallView; where: string }) {
  const say = useSay()
  const language = useLanguage()
  const { conversation, decides } = useConversation()
  const result = call.result
  const stop = () => void ask("POST", `conversations/${part(conversation)}/cancel`, { call_id: call.id }).catch(() => undefined)
  const facts = [
    where && [say(call.startedAt || result ? "call.ran" : "call.runs"), where],
    call.rule && [say("call.rule"), call.rule],
    call.decision && ["", say("call.decidedBy", { decision: say(`call.${call.decision}`), by: call.decidedBy ?? "" })],
    call.startedAt && ["", moment(call.startedAt, language)],
  ].filter(Boolean) as [string, string][]
  return (
    <div className="call-details">
      {!(decides && call.phase === "asking") && (
        <>
          <h4>{call.edited ? say("call.editedArguments", { by: call.decidedBy ?? "" }) : say("call.arguments")}</h4>
          {call.call.unreadable ? <p className="problem">{call.call.unreadable}</p> : <Json value={call.edited ?? call.call.arguments} />}
        </>
      )}
      {result && (
        <>
          <h4>{say(result.error ? "call.error" : "call.result")}</h4>
          {result.error ? <p className="problem">{result.error.error}</p> : <ResultView result={result} />}
          {result.handle && <small>{say("call.whole", { bytes: bytes(result.whole_bytes ?? 0) })}</small>}
        </>
      )}
      <p className="facts">
        {facts.map(([name, value]) => (
          <span key={name + value}>
            {name && <b>{name}</b>} {value}
          </span>
        ))}
        {call.phase === "running" && decides && (
          <button className="quiet" onClick={stop} disabled={call.stopping}>
            <Square aria-hidden /> {say("call.stopOne")}
          </button>
        )}
      </p>
    </div>
  )
}
