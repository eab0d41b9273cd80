// Every tool that the visitor may use: what it takes, who may use it, how it does, and a form to try it.
import { useMemo, useState } from "react"
import { useEveryone } from "../components/OwnerFilter"
import { hrefOf } from "../route"
import type { OverviewAnswer, ToolCard, ToolList } from "../wire/types"
import { useAnswer } from "../wire/useQuery"
import { useSay } from "../locales"
import { healthOf, type Health } from "./health"
import { ToolPage } from "./ToolPage"

const WEEK_EVERY_MS = 30_000

export default function Tools({ name }: { name: string }) {
  const say = useSay()
  const [text, setText] = useState("")
  const everyone = useEveryone()
  const { data, problem } = useAnswer<ToolList>("tools")
  const week = useAnswer<OverviewAnswer>(`overview?hours=168${everyone ? "&whose=tenant" : ""}`, WEEK_EVERY_MS)
  const offered = useAnswer<{ tools: { schema_only: string[] } }>("ai/tools/health")
  const figuresOf = (tool: ToolCard) => week.data?.overview.tools.find((one) => one.tool === tool.name)
  const health = (tool: ToolCard) => (week.data && offered.data ? healthOf([figuresOf(tool) ?? []].flat(), offered.data.tools.schema_only.includes(tool.name)) : null)
  const shown = useMemo(() => matching(data?.tools ?? [], text), [data, text])
  const chosen = data?.tools.find((tool) => tool.name === name)
  return (
    <div className="split" data-chosen={chosen ? "" : undefined}>
      <section className="split-list" aria-label={say("tools.title")}>
        <h1>{say("tools.title")}</h1>
        <input type="search" aria-label={say("tools.filter")} placeholder={say("tools.filter")} value={text} onChange={(event) => setText(event.target.value)} />
        {problem && <p className="problem">{problem}</p>}
        {data && data.count === 0 && <p className="empty">{say("tools.none")}</p>}
        <ul className="lines">
          {shown.map((tool) => (
            <li key={tool.name}>
              <a href={hrefOf("tools", tool.name)} aria-current={tool.name === name ? "true" : undefined}>
                <span>
                  <code>{tool.name}</code> <Trouble health={health(tool)} />
                </span>
                <small>{tool.description.split("\n")[0]}</small>
              </a>
            </li>
          ))}
        </ul>
      </section>
      <div className="split-page">
        {chosen ? (
          <ToolPage key={chosen.name} tool={chosen} figures={figuresOf(chosen)} health={health(chosen)} ran={week.again} />
        ) : (
          data && <p className="empty">{name ? say("tools.unknown", { tool: name }) : say("tools.choose")}</p>
        )}
      </div>
    </div>
  )
}

/** What is well is not worth a word in a list. */
function Trouble({ health }: { health: Health | null }) {
  const say = useSay()
  if (!health || health.kind === "ok" || health.kind === "") return null
  return <span className={`pill ${health.kind}`}>{say(health.word)}</span>
}

function matching(tools: ToolCard[], text: string): ToolCard[] {
  const wanted = text.trim().toLowerCase()
  return tools.filter((tool) => `${tool.name} ${tool.description} ${tool.server_id}`.toLowerCase().includes(wanted))
}
