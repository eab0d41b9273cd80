import { useEffect, useRef } from "react"
import { useTranslate } from "../../locales"
import { useAdministrationText } from "../../locales/administration"
import type { ServerTestAnswer } from "../../wire/types"

export type Trial = ServerTestAnswer & { name: string }

/** What each server answered that was tried: whether it can be used, its tools, and its log if it cannot. */
export function TrialResult({ trials }: { trials: Trial[] }) {
  const t = useTranslate()
  const a = useAdministrationText()
  const result = useRef<HTMLDivElement>(null)
  useEffect(() => {
    result.current?.scrollIntoView({ block: "nearest" })
  }, [trials])
  return (
    <div role="status" className="trial" ref={result}>
      {trials.map(({ name, test, message }) => (
        <div key={name}>
          <p className={test.ok ? "good" : test.needs_sign_in ? "" : "problem"}>{message}</p>
          {test.tools.length > 0 && (
            <details>
              <summary>{a("servers.found", { n: test.tools.length })}</summary>
              <ul className="model-lines">
                {test.tools.map((tool) => (
                  <li key={String(tool["name"])}>
                    <code>{String(tool["name"])}</code> <small>{String(tool["description"] ?? "").split("\n")[0]}</small>
                  </li>
                ))}
              </ul>
            </details>
          )}
          {!test.ok && test.log.length > 0 && (
            <details>
              <summary>{t("servers.log")}</summary>
              <pre className="log" tabIndex={0}>
                {test.log.join("\n")}
              </pre>
            </details>
          )}
        </div>
      ))}
    </div>
  )
}
