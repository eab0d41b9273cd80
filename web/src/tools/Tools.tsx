// Every tool that the visitor may use: what it takes, who may use it, how it does, and a form to try it.
import { useMemo, useState } from "react"
import { useEveryone } from "../parts/Whose"
import { hrefOf } from "../route"
import type { OverviewAnswer, ToolCard, ToolList } from "../wire/types"
import { useAnswer } from "../wire/useAnswer"
import { useSay } from "../words"
import { ToolPage } from "./ToolPage"

export default function Tools({ name }: { name: string }) {
  const say = useSay()
  const [text, setText] = useState("")
  const everyone = useEveryone()
  const { data, problem } = useAnswer<ToolList>("tools")
  const figures = useAnswer<OverviewAnswer>(`overview?hours=168${everyone ? "&whose=tenant" : ""}`)
  const health = useAnswer<{ tools: { schema_only: string[] } }>("ai/tools/health")
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
                <code>{tool.name}</code>
                <small>{tool.description.split("\n")[0]}</small>
              </a>
            </li>
          ))}
        </ul>
      </section>
      <div className="split-page">
        {chosen ? (
          <ToolPage key={chosen.name} tool={chosen} figures={figures.data?.overview.tools.find((one) => one.tool === chosen.name)} broken={health.data?.tools.schema_only.includes(chosen.name) ?? false} />
        ) : (
          data && <p className="empty">{name ? say("tools.unknown", { tool: name }) : say("tools.choose")}</p>
        )}
      </div>
    </div>
  )
}

function matching(tools: ToolCard[], text: string): ToolCard[] {
  const wanted = text.trim().toLowerCase()
  return tools.filter((tool) => `${tool.name} ${tool.description} ${tool.server_id}`.toLowerCase().includes(wanted))
}
