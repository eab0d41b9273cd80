// Definitions that changed since somebody accepted them, as a difference to read before saying yes.
import { useState } from "react"
import { ask, part, said } from "../wire/http"
import type { ShownTool } from "../wire/types"
import { useSay } from "../words"


export function Quarantine({ server, tools, admin, accepted }: { server: string; tools: ShownTool[]; admin: boolean; accepted: () => void }) {
  const say = useSay()
  const [problem, setProblem] = useState("")
  const [left, setLeft] = useState<string[]>([])
  const accept = (name: string) => {
    ask("POST", `servers/${part(server)}/accept`, { tools: [name] }).then(accepted, (error: unknown) => setProblem(said(error)))
  }
  const shown = tools.filter((tool) => !left.includes(tool.name))
  if (!shown.length) return null
  return (
    <section className="quarantine">
      <h3>{say("servers.quarantine", { n: shown.length })}</h3>
      <p className="about">{say("servers.quarantineAbout")}</p>
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      {shown.map((tool) => (
        <article key={tool.name} aria-label={tool.name}>
          <header>
            <code>{tool.name}</code>
            <span className="pill asking">{say(tool.state === "new" ? "servers.new" : "servers.changed")}</span>
            <span className="grow" />
            {admin && (
              <>
                <button className="primary" onClick={() => accept(tool.name)}>
                  {say("servers.accept")}
                </button>
                <button onClick={() => setLeft([...left, tool.name])}>{say("servers.reject")}</button>
              </>
            )}
          </header>
          <Difference text={tool.difference || `+ ${tool.description}`} />
        </article>
      ))}
    </section>
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
