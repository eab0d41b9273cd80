import { useMemo } from "react"
import type { Result } from "../../wire/types"
import { useTranslate } from "../../locales"
import { readProgramResult } from "./programs"
import { ResultView } from "../ResultView"

/** What a program has printed, if anything. */
export function Printed({ text }: { text: string }) {
  const t = useTranslate()
  if (!text) return null
  return (
    <>
      <h2>{t("program.printed")}</h2>
      <div className="json" role="group" aria-label={t("program.printed")}>
        <pre tabIndex={0}>{text}</pre>
      </div>
    </>
  )
}

/** What a program has printed, and the value of its last expression or why there is none. */
export function ProgramResult({ result, printedBefore }: { result: Result; printedBefore: string }) {
  const t = useTranslate()
  const answer = useMemo(() => (result.error ? null : readProgramResult(result.content)), [result])
  const failedPrinted = result.error?.details?.["printed"]
  // The result of a program that was stopped does not have it.
  const printed = answer ? answer.printed : typeof failedPrinted === "string" ? failedPrinted : printedBefore
  const shown = useMemo(() => (answer ? { ...result, content: typeof answer.value === "string" ? answer.value : JSON.stringify(answer.value) } : result), [answer, result])
  return (
    <>
      <Printed text={printed} />
      {result.error && (
        <>
          <h2>{t("call.error")}</h2>
          <p className="problem program-error">{result.error.error}</p>
        </>
      )}
      {!result.error && (answer?.value !== null || !printed) && (
        <>
          <h2>{t("call.result")}</h2>
          <ResultView result={shown} />
        </>
      )}
      {answer?.note && <p className="hint">{answer.note}</p>}
    </>
  )
}
