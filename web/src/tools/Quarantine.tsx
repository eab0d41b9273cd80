// Tools of an MCP server whose definition changed since it was accepted, with the difference, and those that were rejected.
// Models follow what a description says, so a changed tool is not offered before an administrator has read the change.
import { requestJson } from "../wire/http"
import { useProblem } from "../wire/useProblem"
import type { ServerToolView } from "../wire/types"
import { useTranslate, type MessageKey } from "../locales"
import { ProblemText } from "../components/ProblemText"

const STATE_KEYS: Record<string, MessageKey> = { new: "servers.new", changed: "servers.changed", rejected: "servers.rejected" }

type Decision = "accept" | "reject"

interface QuarantineProps {
  server: string
  tools: ServerToolView[]
  /** Whether the user may accept and reject. */
  mayDecide: boolean
  onDecided: () => void
}

export function Quarantine({ server, tools, mayDecide, onDecided }: QuarantineProps) {
  const t = useTranslate()
  const [problem, fail, clear] = useProblem()
  const decide = (decision: Decision, ...decided: ServerToolView[]) => {
    clear()
    const body = { tools: decided.map(({ name }) => name), hashes: decided.map(({ hash }) => hash) }
    requestJson("POST", `servers/${encodeURIComponent(server)}/${decision}`, body).then(onDecided, fail)
  }
  const waiting = tools.filter((tool) => tool.state !== "rejected")
  const rejected = tools.filter((tool) => tool.state === "rejected")
  const renderTool = (tool: ServerToolView) => <ChangedTool key={tool.name} tool={tool} decide={mayDecide ? decide : null} />
  return (
    <>
      <ProblemText text={problem} />
      {waiting.length > 0 && (
        <section className="quarantine">
          <h3>{t("servers.quarantine", { n: waiting.length })}</h3>
          <p className="about">{t("servers.quarantineAbout")}</p>
          {mayDecide && waiting.length > 1 && (
            <div className="button-row">
              {(["accept", "reject"] as const).map((decision) => (
                <button key={decision} onClick={() => decide(decision, ...waiting)}>
                  {t(`servers.${decision}All`, { n: waiting.length })}
                </button>
              ))}
            </div>
          )}
          {waiting.map(renderTool)}
        </section>
      )}
      {rejected.length > 0 && (
        <details>
          <summary>
            {t("servers.rejectedTools")}: {rejected.length}
          </summary>
          <div className="quarantine">{rejected.map(renderTool)}</div>
        </details>
      )}
    </>
  )
}

function ChangedTool({ tool, decide }: { tool: ServerToolView; decide: ((decision: Decision, tool: ServerToolView) => void) | null }) {
  const t = useTranslate()
  return (
    <article aria-label={tool.name}>
      <header>
        <code>{tool.name}</code>
        <span className={tool.state === "rejected" ? "pill" : "pill asking"}>{t(STATE_KEYS[tool.state] ?? "servers.changed")}</span>
        <span className="grow" />
        {decide && (
          <>
            <button className="primary" onClick={() => decide("accept", tool)}>
              {t("servers.accept")}
            </button>
            {tool.state !== "rejected" && <button onClick={() => decide("reject", tool)}>{t("servers.reject")}</button>}
          </>
        )}
      </header>
      <Difference text={tool.difference || `+ ${tool.description}`} />
    </article>
  )
}

/** A difference in lines: removed lines begin with a minus, added lines with a plus. */
function Difference({ text }: { text: string }) {
  return (
    <div className="diff" tabIndex={0}>
      {text.split("\n").map((line, index) => (
        <div key={index} data-sign={line.startsWith("+") ? "+" : line.startsWith("-") ? "-" : undefined}>
          {line || " "}
        </div>
      ))}
    </div>
  )
}
