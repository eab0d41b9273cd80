// Runs, errors, tokens and latencies over time, in total and by tool and model.
import { useState } from "react"
import { Figure } from "../components/Figure"
import { MissingOperator } from "../components/MissingOperator"
import { OwnerFilter, useTenantByDefault } from "../components/OwnerFilter"
import { formatCount, formatDuration } from "../app/format"
import { buildHref } from "../app/route"
import type { Overview as Figures, OverviewAnswer, Point } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { useLanguage, useTranslate } from "../locales"
import { Chart } from "./Chart"
import { LatencyCharts } from "./LatencyCharts"

const HOURS = [1, 24, 168, 720] as const
const POLL_MS = 15_000

export default function Overview() {
  const t = useTranslate()
  const language = useLanguage()
  const [hours, setHours] = useState<(typeof HOURS)[number]>(24)
  const [everyone, setEveryone] = useState(useTenantByDefault())
  const { data, problem } = useQuery<OverviewAnswer>(`overview?hours=${hours}${everyone ? "&whose=tenant" : ""}`, POLL_MS)
  const points = data?.overview.points ?? []
  const sum = (name: Exclude<keyof Point, "at">) => points.reduce((total, point) => total + (point[name] ?? 0), 0)
  const figure = (value: number) => (data ? formatCount(value, language) : "–")
  return (
    <div className="page">
      <header className="page-head">
        <h1>{t("overview.title")}</h1>
        <OwnerFilter everyone={everyone} onChange={setEveryone} />
        <div className="switch" role="group" aria-label={t("overview.hours")}>
          {HOURS.map((option) => (
            <button key={option} aria-pressed={hours === option} onClick={() => setHours(option)}>
              {t(`overview.${option}`)}
            </button>
          ))}
        </div>
      </header>
      <MissingOperator />
      {problem && !data && <p className="problem">{problem}</p>}
      {data && !data.complete && <p className="about">{t("overview.incomplete")}</p>}
      <dl className="figures">
        <Figure name={t("overview.runs")} value={figure(sum("runs"))} />
        <Figure name={t("overview.failed")} value={figure(sum("failed"))} bad={sum("failed") > 0} />
        <Figure name={t("overview.calls")} value={figure(sum("calls"))} />
        <Figure name={t("overview.errors")} value={figure(sum("call_errors"))} bad={sum("call_errors") > 0} />
        <Figure name={t("overview.tokens")} value={figure(sum("input_tokens") + sum("output_tokens"))} />
      </dl>
      {data && (
        <div className="charts">
          <Chart title={t("overview.runs")} points={points} series={[{ name: t("overview.runs"), field: "runs", tone: "accent" }, { name: t("overview.failed"), field: "failed", tone: "bad" }]} />
          <Chart title={t("overview.calls")} points={points} series={[{ name: t("overview.calls"), field: "calls", tone: "accent" }, { name: t("overview.errors"), field: "call_errors", tone: "bad" }]} />
          <Chart title={t("overview.tokens")} points={points} series={[{ name: t("overview.input"), field: "input_tokens", tone: "accent" }, { name: t("overview.output"), field: "output_tokens", tone: "warn" }]} />
          <Chart title={t("overview.callTimes")} points={points} lines series={[{ name: "p50", field: "call_p50_ms", tone: "accent" }, { name: "p95", field: "call_p95_ms", tone: "warn" }]} />
          <Chart title={t("overview.turnTimes")} points={points} lines series={[{ name: "p50", field: "turn_p50_ms", tone: "accent" }, { name: "p95", field: "turn_p95_ms", tone: "warn" }]} />
        </div>
      )}
      {data && <ToolTable overview={data.overview} />}
      {data && <ModelTable overview={data.overview} />}
    </div>
  )
}

function ToolTable({ overview }: { overview: Figures }) {
  const t = useTranslate()
  const { tools } = overview
  return (
    <section>
      <h2>{t("overview.tools")}</h2>
      {tools.length === 0 ? (
        <p className="empty">{t("overview.none")}</p>
      ) : (
        <FiguresTable
          columns={[t("traces.tool"), t("overview.calls"), t("overview.errors"), "p50", "p95"]}
          rows={tools.map((tool) => ({ name: tool.tool, href: buildHref("tools", tool.tool), cells: [String(tool.calls), String(tool.errors), formatMs(tool.p50_ms), formatMs(tool.p95_ms)], bad: tool.errors > 0 }))}
        />
      )}
      <LatencyCharts of={tools.map(({ tool, times }) => ({ name: tool, times }))} time={overview} />
    </section>
  )
}

function ModelTable({ overview }: { overview: Figures }) {
  const t = useTranslate()
  const language = useLanguage()
  const { models } = overview
  if (!models.length) return null
  return (
    <section>
      <h2>{t("overview.models")}</h2>
      <FiguresTable
        columns={[t("traces.model"), t("overview.turns"), t("overview.failed"), "p50", "p95", t("overview.input"), t("overview.output")]}
        rows={models.map((model) => ({
          name: model.model,
          href: "",
          cells: [String(model.turns), String(model.failed), formatMs(model.p50_ms), formatMs(model.p95_ms), formatCount(model.input_tokens, language), formatCount(model.output_tokens, language)],
          bad: model.failed > 0,
        }))}
      />
      <LatencyCharts of={models.map(({ model, times }) => ({ name: model, times }))} time={overview} />
    </section>
  )
}

function FiguresTable({ columns, rows }: { columns: string[]; rows: { name: string; href: string; cells: string[]; bad: boolean }[] }) {
  return (
    <div className="table-frame" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column, index) => (
              <th key={column} scope="col" className={index ? "number" : ""}>
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.name}>
              <td>{row.href ? <a href={row.href}>{row.name}</a> : row.name}</td>
              {row.cells.map((cell, index) => (
                <td key={index} className={index === 1 && row.bad ? "number bad" : "number"}>
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function formatMs(value: number | null): string {
  return value === null ? "–" : formatDuration(value)
}
