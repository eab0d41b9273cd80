import { Square } from "lucide-react"
import { requestJson } from "../wire/http"
import type { CallView } from "../state/view"
import type { Result } from "../wire/types"
import { JsonView } from "../components/JsonView"
import { formatBytes, formatDateTime } from "../app/format"
import { useConversation } from "../state/conversationContext"
import { useLanguage, useTranslate } from "../locales"
import { ArgumentsDiff } from "./ArgumentsDiff"
import { Decisions } from "./Decisions"
import { OriginalResult } from "./OriginalResult"
import { ProgramResult } from "./programs/ProgramResult"
import { getProgramText, isOpenProgram } from "./programs/programs"
import { ResultView } from "./ResultView"

export function CallDetails({ call, where }: { call: CallView; where: string }) {
  const t = useTranslate()
  const language = useLanguage()
  const { conversation, mayDecide } = useConversation()
  const result = call.result
  const isProgram = getProgramText(call.call) !== null
  const stop = () => void requestJson("POST", `conversations/${encodeURIComponent(conversation)}/cancel`, { call_id: call.id }).catch(() => undefined)
  const facts = [
    [t("traces.tool"), call.call.tool],
    where && [t(call.startedAt || result ? "call.ran" : "call.runs"), where],
    call.rule && [t("call.rule"), call.rule],
    call.startedAt && ["", formatDateTime(call.startedAt, language)],
  ].filter(Boolean) as [string, string][]
  return (
    <div className="call-details">
      {!isProgram && !(mayDecide && call.phase === "asking") && (
        <>
          <h2>{call.edited ? t("call.editedArguments", { by: call.decidedBy ?? "" }) : t("call.arguments")}</h2>
          {call.call.unreadable ? <p className="problem">{call.call.unreadable}</p> : <JsonView value={call.edited ?? call.call.arguments} />}
          {call.edited && <ArgumentsDiff before={call.call.arguments} after={call.edited} />}
        </>
      )}
      {result && (
        <>
          {isProgram ? <ProgramResult result={result} printedBefore={call.printed ?? ""} /> : <CallResult result={result} />}
          {Boolean(result.redacted?.length) && <OriginalResult result={result} />}
          {result.handle && <small>{t("call.truncated", { bytes: formatBytes(result.whole_bytes ?? 0) })}</small>}
        </>
      )}
      <Decisions decisions={call.decisions} />
      <p className="facts">
        {facts.map(([name, value]) => (
          <span key={name + value}>
            {name && <b>{name}</b>} {value}
          </span>
        ))}
        {(call.phase === "running" || isOpenProgram(call)) && mayDecide && (
          <button className="quiet" onClick={stop} disabled={call.stopping}>
            <Square aria-hidden /> {t(isProgram ? "program.stop" : "call.stop")}
          </button>
        )}
      </p>
    </div>
  )
}

function CallResult({ result }: { result: Result }) {
  const t = useTranslate()
  return (
    <>
      <h2>{t(result.error ? "call.error" : "call.result")}</h2>
      {result.error ? <p className="problem">{result.error.error}</p> : <ResultView result={result} />}
    </>
  )
}
