// How the server does: runs, errors, tokens and latencies over time, by tool and by model.
import { useState } from "react"
import { Whose, useEveryone } from "../components/OwnerFilter"
import { count, duration } from "../format"
import { hrefOf } from "../route"
import type { Overview as Figures, OverviewAnswer, Point } from "../wire/types"
import { useAnswer } from "../wire/useQuery"
import { Figure } from "../tools/ToolPage"
import { useLanguage, useSay } from "../locales"
import { Chart } from "./Chart"
import { Latencies } from "./LatencyCharts"

const HOURS = [1, 24, 168, 720] as const
const LOOK_EVERY_MS = 15_000

export default function Overview() {
  const say = useSay()
  const language = useLanguage()
  const [hours, setHours] = useState<(typeof HOURS)[number]>(24)
  const [everyone, setEveryone] = useState(useEveryone())
  const { data, problem } = useAnswer<OverviewAnswer>(`overview?hours=${hours}${everyone ? "&whose=tenant" : ""}`, LOOK_EVERY_MS)
  const points = data?.overview.points ?? []
  const sum = (name: Exclude<keyof Point, "at">) => points.reduce((total, point) => total + (point[name] ?? 0), 0)
  const figure = (value: number) => (data ? count(value, language) : "–")
  return (
    <div className="page">
      <header className="page-head">
        <h1>{say("overview.title")}</h1>
        <Whose everyone={everyone} onChange={setEveryone} />
        <div className="switch" role="group" aria-label={say("overview.hours")}>
          {HOURS.map((one) => (
            <button key={one} aria-pressed={hours === one} onClick={() => setHours(one)}>
              {say(`overview.${one}`)}
            </button>
          ))}
        </div>
      </header>
      {problem && !data && <p className="problem">{problem}</p>}
      {data && !data.complete && <p className="about">{say("overview.incomplete")}</p>}
      <dl className="figures">
        <Figure name={say("overview.runs")} value={figure(sum("runs"))} />
        <Figure name={say("overview.failed")} value={figure(sum("failed"))} bad={sum("failed") > 0} />
        <Figure name={say("overview.calls")} value={figure(sum("calls"))} />
        <Figure name={say("overview.errors")} value={figure(sum("call_errors"))} bad={sum("call_errors") > 0} />
        <Figure name={say("overview.tokens")} value={figure(sum("input_tokens") + sum("output_tokens"))} />
      </dl>
      {data && (
        <div className="charts">
          <Chart title={say("overview.runs")} points={points} series={[{ name: say("overview.runs"), field: "runs", tone: "accent" }, { name: say("overview.failed"), field: "failed", tone: "bad" }]} />
          <Chart title={say("overview.calls")} points={points} series={[{ name: say("overview.calls"), field: "calls", tone: "accent" }, { name: say("overview.errors"), field: "call_errors", tone: "bad" }]} />
          <Chart title={say("overview.tokens")} points={points} series={[{ name: say("overview.input"), field: "input_tokens", tone: "accent" }, { name: say("overview.output"), field: "output_tokens", tone: "warn" }]} />
          <Chart title={say("overview.callTimes")} points={points} lines series={[{ name: "p50", field: "call_p50_ms", tone: "accent" }, { name: "p95", field: "call_p95_ms", tone: "warn" }]} />
          <Chart title={say("overview.turnTimes")} points={points} lines series={[{ name: "p50", field: "turn_p50_ms", tone: "accent" }, { name: "p95", field: "turn_p95_ms", tone: "warn" }]} />
        </div>
      )}
      {data && <ToolTable overview={data.overview} />}
      {data && <ModelTable overview={data.overview} />}
    </div>
  )
}

function ToolTable({ overview }: { overview: Figures }) {
  const say = useSay()
  const { tools } = overview
  return (
    <section>
      <h2>{say("overview.tools")}</h2>
      {tools.length === 0 ? (
        <p className="empty">{say("overview.none")}</p>
      ) : (
        <FiguresTable
          columns={[say("traces.tool"), say("overview.calls"), say("overview.errors"), "p50", "p95"]}
          rows={tools.map((tool) => ({ name: tool.tool, href: hrefOf("tools", tool.tool), cells: [String(tool.calls), String(tool.errors), ms(tool.p50_ms), ms(tool.p95_ms)], bad: tool.errors > 0 }))}
        />
      )}
      <Latencies of={tools.map(({ tool, times }) => ({ name: tool, times }))} time={overview} />
    </section>
  )
}

function ModelTable({ overview }: { overview: Figures }) {
  const say = useSay()
  const language = useLanguage()
  const { models } = overview
  if (!models.length) return null
  return (
    <section>
      <h2>{say("overview.models")}</h2>
      <FiguresTable
        columns={[say("traces.model"), say("overview.turns"), say("overview.failed"), "p50", "p95", say("overview.input"), say("overview.output")]}
        rows={models.map((model) => ({
          name: model.model,
          href: "",
          cells: [String(model.turns), String(model.failed), ms(model.p50_ms), ms(model.p95_ms), count(model.input_tokens, language), count(model.output_tokens, language)],
          bad: model.failed > 0,
        }))}
      />
      <Latencies of={models.map(({ model, times }) => ({ name: model, times }))} time={overview} />
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

function ms(value: number | null): string {
  return value === null ? "–" : duration(value)
}
