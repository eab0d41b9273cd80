// Definitions that changed since somebody accepted them, as a difference to read before saying yes or no; and those that were kept out.
import { useState } from "react"
import { ask, part, said } from "../wire/http"
import type { ShownTool } from "../wire/types"
import { useSay, type Word } from "../locales"

const PILLS: Record<string, Word> = { new: "servers.new", changed: "servers.changed", rejected: "servers.rejected" }

interface QuarantineProps {
  server: string
  tools: ShownTool[]
  admin: boolean
  decided: () => void
}

export function Quarantine({ server, tools, admin, decided }: QuarantineProps) {
  const say = useSay()
  const [problem, setProblem] = useState("")
  const decide = (how: "accept" | "reject", name: string) => {
    setProblem("")
    ask("POST", `servers/${part(server)}/${how}`, { tools: [name] }).then(decided, (error: unknown) => setProblem(said(error)))
  }
  const waiting = tools.filter((tool) => tool.state !== "rejected")
  const out = tools.filter((tool) => tool.state === "rejected")
  const shown = (tool: ShownTool) => <Changed key={tool.name} tool={tool} decide={admin ? decide : null} />
  return (
    <>
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      {waiting.length > 0 && (
        <section className="quarantine">
          <h3>{say("servers.quarantine", { n: waiting.length })}</h3>
          <p className="about">{say("servers.quarantineAbout")}</p>
          {waiting.map(shown)}
        </section>
      )}
      {out.length > 0 && (
        <details>
          <summary>
            {say("servers.keptOut")}: {out.length}
          </summary>
          <div className="quarantine">{out.map(shown)}</div>
        </details>
      )}
    </>
  )
}

function Changed({ tool, decide }: { tool: ShownTool; decide: ((how: "accept" | "reject", name: string) => void) | null }) {
  const say = useSay()
  return (
    <article aria-label={tool.name}>
      <header>
        <code>{tool.name}</code>
        <span className={tool.state === "rejected" ? "pill" : "pill asking"}>{say(PILLS[tool.state] ?? "servers.changed")}</span>
        <span className="grow" />
        {decide && (
          <>
            <button className="primary" onClick={() => decide("accept", tool.name)}>
              {say("servers.accept")}
            </button>
            {tool.state !== "rejected" && <button onClick={() => decide("reject", tool.name)}>{say("servers.reject")}</button>}
          </>
        )}
      </header>
      <Difference text={tool.difference || `+ ${tool.description}`} />
    </article>
  )
}

/** Line by line: what went with a minus, what came with a plus. */
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
