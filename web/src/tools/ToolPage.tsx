import { ArrowLeft } from "lucide-react"
import { Json } from "../components/JsonView"
import { duration } from "../format"
import { hrefOf } from "../route"
import type { ToolCard, ToolFigures } from "../wire/types"
import { useSay, type Word } from "../locales"
import type { Health } from "./health"
import { HealthLines } from "./HealthLines"
import { TryTool } from "./TryTool"

interface ToolPageProps {
  tool: ToolCard
  figures: ToolFigures | undefined
  health: Health | null
  /** A call that was made here has come further. */
  ran: () => void
}

function effectOf(tool: ToolCard): Word {
  if (tool.read_only) return "tools.effect.reads"
  return tool.destructive ? "tools.effect.destroys" : "tools.effect.changes"
}

export function ToolPage({ tool, figures, health, ran }: ToolPageProps) {
  const say = useSay()
  const venue = ["function", "mcp", "client", "provider"].includes(tool.venue) ? say(`venue.${tool.venue}` as Word) : tool.venue
  const facts: [string, string][] = [
    [say("tools.runs"), tool.venue === "mcp" ? `${venue} · ${tool.server_id}` : venue],
    [say("tools.approval"), say(`tools.approval.${tool.approval}` as Word)],
    [say("tools.roles"), [...tool.roles, ...(tool.own_check ? [say("tools.ownCheck")] : [])].join(", ") || say("tools.everyone")],
    ...(tool.divisions.length ? ([[say("tools.divisions"), tool.divisions.join(", ")]] as [string, string][]) : []),
    [say("tools.effect"), say(effectOf(tool))],
    [say("tools.open_world"), say(tool.open_world ? "common.yes" : "common.no")],
    [say("tools.repeatable"), say(tool.read_only || tool.idempotent ? "common.yes" : "common.no")],
    [say("tools.exclusive"), say(tool.exclusive ? "common.yes" : "common.no")],
    [say("tools.timeout"), duration(tool.timeout_s * 1000)],
  ]
  return (
    <article className="tool-page">
      <a className="back only-phone" href={hrefOf("tools")}>
        <ArrowLeft aria-hidden /> {say("tools.title")}
      </a>
      <header>
        <h2 className="mono-title">{tool.name}</h2>
        {health && <span className={`pill ${health.kind}`}>{say(health.word)}</span>}
      </header>
      <p className="about">{tool.description}</p>
      <dl className="figures">
        <Figure name={say("tools.calls")} value={health ? String(health.calls) : "–"} />
        <Figure name={say("tools.errors")} value={health ? String(health.errors) : "–"} bad={Boolean(health?.errors)} />
        <Figure name={say("tools.p50")} value={figures?.p50_ms == null ? "–" : duration(figures.p50_ms)} />
        <Figure name={say("tools.p95")} value={figures?.p95_ms == null ? "–" : duration(figures.p95_ms)} />
      </dl>
      {health && <HealthLines health={health} />}
      <section>
        <h3>{say("tools.rules")}</h3>
        <dl className="rules">
          {facts.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </section>
      <TryTool tool={tool} ran={ran} />
      <details className="schema">
        <summary>{say("tools.schema")}</summary>
        <Json value={tool.parameters} />
      </details>
    </article>
  )
}

export function Figure({ name, value, bad = false }: { name: string; value: string; bad?: boolean }) {
  return (
    <div data-bad={bad || undefined}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  )
}
