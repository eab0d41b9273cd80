import { ArrowLeft } from "lucide-react"
import { Suspense, lazy } from "react"
import { Figure } from "../components/Figure"
import { JsonView } from "../components/JsonView"
import { formatDuration, formatSpan } from "../app/format"
import { buildHref } from "../app/route"
import { describeApprovers } from "../calls/approvalTerms"
import { isAdmin, useMe } from "../session/caller"
import { useQuery } from "../wire/useQuery"
import type { AccessAnswer, ApprovalNeed, ToolCard, ToolFigures } from "../wire/types"
import { useLanguage, useTranslate, type Language, type MessageKey, type Translate } from "../locales"
import type { Health } from "./health"
import { HealthLines } from "./HealthLines"
import { LastCalls } from "./LastCalls"
import { TryTool } from "./TryTool"

const ToolAdministration = lazy(() => import("../administration/ToolAdministration"))

interface ToolPageProps {
  tool: ToolCard
  figures: ToolFigures | undefined
  health: Health | null
  /** Called when a call that was made here changes its state. */
  onCallChanged: () => void
  onRulesChanged: () => void
}

function describeEffect(tool: ToolCard): MessageKey {
  if (tool.read_only) return "tools.effect.reads"
  return tool.destructive ? "tools.effect.destroys" : "tools.effect.changes"
}

/** Return what a decision on a call takes. Without `need` only what the tool itself says. */
function listApprovalFacts(tool: ToolCard, need: ApprovalNeed | null, t: Translate, language: Language): [string, string][] {
  const facts: [string, string][] = [[t("tools.approval"), t(`tools.approval.${tool.approval}` as MessageKey)]]
  const needed = need?.needed ?? tool.approvals
  if (tool.approvers.length) facts.push([t("tools.approvers"), describeApprovers(tool, t)])
  if (needed > 1) facts.push([t("tools.approvalsNeeded"), String(needed)])
  if (need?.reason_required) facts.push([t("tools.reason"), t("tools.reasonNeeded")])
  if (need) facts.push([t("tools.decideWithin"), formatSpan(need.approval_s, language)])
  return facts
}

export function ToolPage({ tool, figures, health, onCallChanged, onRulesChanged }: ToolPageProps) {
  const t = useTranslate()
  const language = useLanguage()
  const admin = isAdmin(useMe())
  const { data, refetch } = useQuery<AccessAnswer>(`access?tool=${encodeURIComponent(tool.name)}`)
  const venue = ["function", "mcp", "client", "provider"].includes(tool.venue) ? t(`venue.${tool.venue}` as MessageKey) : tool.venue
  const facts: [string, string][] = [
    [t("tools.runs"), tool.venue === "mcp" ? `${venue} · ${tool.server_id}` : venue],
    ...listApprovalFacts(tool, data?.access.approval ?? null, t, language),
    ...(data ? ([[t("tools.decidedBy"), `${data.access.rule}: ${data.access.reason}`]] as [string, string][]) : []),
    [t("tools.roles"), [...tool.roles, ...(tool.own_check ? [t("tools.ownCheck")] : [])].join(", ") || t("tools.everyone")],
    ...(tool.divisions.length ? ([[t("tools.divisions"), tool.divisions.join(", ")]] as [string, string][]) : []),
    [t("tools.effect"), t(describeEffect(tool))],
    [t("tools.open_world"), t(tool.open_world ? "common.yes" : "common.no")],
    [t("tools.repeatable"), t(tool.read_only || tool.idempotent ? "common.yes" : "common.no")],
    [t("tools.exclusive"), t(tool.exclusive ? "common.yes" : "common.no")],
    [t("tools.timeout"), formatDuration(tool.timeout_s * 1000)],
  ]
  return (
    <article className="tool-page">
      <a className="back only-phone" href={buildHref("tools")}>
        <ArrowLeft aria-hidden /> {t("tools.title")}
      </a>
      <header>
        {tool.title ? <h1>{tool.title}</h1> : <h1 className="mono-title">{tool.name}</h1>}
        {tool.title && <code>{tool.name}</code>}
        {health && <span className={`pill ${health.kind}`}>{t(health.message)}</span>}
      </header>
      <p className="about">{tool.description}</p>
      <dl className="figures">
        <Figure name={t("tools.calls")} value={health ? String(health.calls) : "–"} />
        <Figure name={t("tools.errors")} value={health ? String(health.errors) : "–"} bad={Boolean(health?.errors)} />
        <Figure name={t("tools.p50")} value={figures?.p50_ms == null ? "–" : formatDuration(figures.p50_ms)} />
        <Figure name={t("tools.p95")} value={figures?.p95_ms == null ? "–" : formatDuration(figures.p95_ms)} />
      </dl>
      {health && <HealthLines health={health} />}
      <section>
        <h2>{t("tools.rules")}</h2>
        <dl className="rules">
          {facts.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </section>
      {admin && (
        <Suspense fallback={null}>
          <ToolAdministration
            tool={tool.name}
            onChanged={() => {
              refetch()
              onRulesChanged()
            }}
          />
        </Suspense>
      )}
      {tool.venue !== "provider" && <TryTool tool={tool} onCallChanged={onCallChanged} />}
      <LastCalls tool={tool.name} />
      <details className="schema">
        <summary>{t("tools.schema")}</summary>
        <JsonView value={tool.parameters} />
      </details>
    </article>
  )
}
