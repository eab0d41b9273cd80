// Tries a provider with real requests, and shows in words what came back.
import { useEffect, useRef, useState } from "react"
import { useAdministrationText } from "../../locales/administration"
import { requestJson } from "../../wire/http"
import type { ProviderCheck, ProviderTestAnswer } from "../../wire/types"
import { useProblem } from "../../wire/useProblem"

interface ProviderTestProps {
  provider: string
  /** Settings that are not saved yet; without them those that are in use are tried. */
  value?: Record<string, unknown>
  /** The provider's name of a model to ask; empty asks only for the list of models. */
  model: string
  onChecked?: (check: ProviderCheck) => void
}

export function ProviderTest({ provider, value, model, onChecked }: ProviderTestProps) {
  const a = useAdministrationText()
  const [check, setCheck] = useState<ProviderCheck | null>(null)
  const [busy, setBusy] = useState(false)
  const [problem, fail, clear] = useProblem()
  const result = useRef<HTMLDivElement>(null)
  // In a dialog that scrolls, what came back may be below its edge.
  useEffect(() => {
    if (check || problem) result.current?.scrollIntoView({ block: "nearest" })
  }, [check, problem])
  const run = async () => {
    setBusy(true)
    setCheck(null)
    clear()
    try {
      const answer = await requestJson<ProviderTestAnswer>("POST", `providers/${encodeURIComponent(provider)}/test`, { ...(value && { value }), model })
      setCheck(answer.test)
      onChecked?.(answer.test)
    } catch (error) {
      fail(error)
    } finally {
      setBusy(false)
    }
  }
  return (
    <div className="trial">
      <button type="button" disabled={busy || !provider} onClick={() => void run()}>
        {a(busy ? "testing" : "test")}
      </button>
      <div role="status" ref={result}>
        {check && <p className={check.ok ? "good" : "problem"}>{check.message}</p>}
        {check?.reply && <p>{a("models.reply", { reply: check.reply })}</p>}
        {problem && <p className="problem">{problem}</p>}
      </div>
      {check && check.models.length > 0 && (
        <details>
          <summary>{a("models.listed", { n: check.models.length })}</summary>
          <p className="value">{check.models.join(", ")}</p>
        </details>
      )}
    </div>
  )
}
