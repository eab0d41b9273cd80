// The tools that the user may call: their parameters, rules and health, and a form to try each of them.
import { useMemo, useState } from "react"
import { useTenantByDefault } from "../components/OwnerFilter"
import { buildHref } from "../app/route"
import type { OverviewAnswer, ToolCard, ToolList } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { useTranslate } from "../locales"
import { summarizeHealth, type Health } from "./health"
import { ToolPage } from "./ToolPage"

const WEEK_POLL_MS = 30_000

export default function Tools({ name }: { name: string }) {
  const t = useTranslate()
  const [text, setText] = useState("")
  const everyone = useTenantByDefault()
  const { data, problem, refetch } = useQuery<ToolList>("tools")
  const week = useQuery<OverviewAnswer>(`overview?hours=168${everyone ? "&whose=tenant" : ""}`, WEEK_POLL_MS)
  const toolHealth = useQuery<{ tools: { schema_only: string[] } }>("ai/tools/health")
  const findFigures = (tool: ToolCard) => week.data?.overview.tools.find((figures) => figures.tool === tool.name)
  const findHealth = (tool: ToolCard) => (week.data && toolHealth.data ? summarizeHealth([findFigures(tool) ?? []].flat(), { broken: toolHealth.data.tools.schema_only.includes(tool.name), own: !everyone }) : null)
  const matches = useMemo(() => filterTools(data?.tools ?? [], text), [data, text])
  const chosen = data?.tools.find((tool) => tool.name === name)
  return (
    <div className="split" data-chosen={chosen ? "" : undefined}>
      <section className="split-list" aria-label={t("tools.title")}>
        <h1>{t("tools.title")}</h1>
        <input type="search" aria-label={t("tools.filter")} placeholder={t("tools.filter")} value={text} onChange={(event) => setText(event.target.value)} />
        {problem && <p className="problem">{problem}</p>}
        {data && data.count === 0 && <p className="empty">{t("tools.none")}</p>}
        {data && data.count > 0 && matches.length === 0 && <p className="empty">{t("tools.noMatch")}</p>}
        <ul className="lines">
          {matches.map((tool) => (
            <li key={tool.name}>
              <a href={buildHref("tools", tool.name)} aria-current={tool.name === name ? "true" : undefined}>
                <span>
                  {tool.title && <strong>{tool.title} </strong>}
                  <code>{tool.name}</code> <HealthPill health={findHealth(tool)} />
                </span>
                <small>{tool.description.split("\n")[0]}</small>
              </a>
            </li>
          ))}
        </ul>
      </section>
      <div className="split-page">
        {chosen ? (
          <ToolPage key={chosen.name} tool={chosen} figures={findFigures(chosen)} health={findHealth(chosen)} onCallChanged={week.refetch} onRulesChanged={refetch} />
        ) : (
          data && <p className="empty">{name ? t("tools.unknown", { tool: name }) : t("tools.choose")}</p>
        )}
      </div>
    </div>
  )
}

/** A pill for a tool that fails; in a list, a tool that works or was not called needs none. */
function HealthPill({ health }: { health: Health | null }) {
  const t = useTranslate()
  if (!health || health.kind === "ok" || health.kind === "") return null
  return <span className={`pill ${health.kind}`}>{t(health.message)}</span>
}

function filterTools(tools: ToolCard[], text: string): ToolCard[] {
  const query = text.trim().toLowerCase()
  return tools.filter((tool) => `${tool.name} ${tool.title} ${tool.description} ${tool.server_id}`.toLowerCase().includes(query))
}
