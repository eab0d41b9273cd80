import { useState, type ReactNode } from "react"
import type { CallView } from "../../state/view"
import { useTranslate } from "../../locales"
import { listProgramAsks } from "./programs"

/** Of more calls the latest are shown, until the user wants to see the others. */
const MAX_SHOWN = 10

/** The calls that a program has made, without those that wait: these are shown where they can be decided. */
export function ProgramCalls({ program, renderCall }: { program: CallView; renderCall: (call: CallView) => ReactNode }) {
  const t = useTranslate()
  const [all, setAll] = useState(false)
  const asks = listProgramAsks(program)
  const calls = (program.calls ?? []).filter((call) => !asks.includes(call))
  const left = all ? 0 : Math.max(0, calls.length - MAX_SHOWN)
  if (!calls.length) return null
  return (
    <div className="program-calls">
      <h2>{t("traces.calls")}</h2>
      {left > 0 && (
        <button className="quiet" onClick={() => setAll(true)}>
          {t("program.earlier", { n: left })}
        </button>
      )}
      <div className="calls">{calls.slice(left).map(renderCall)}</div>
    </div>
  )
}
