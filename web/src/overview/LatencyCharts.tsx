// The latency of each tool or model over time: a small chart for each, the most used first.
import { useState } from "react"
import { formatClock, formatDay, formatDuration } from "../app/format"
import type { Latency, Overview } from "../wire/types"
import { useLanguage, useTranslate } from "../locales"
import { ScreenReaderTable } from "./ScreenReaderTable"

interface LatencySeries {
  name: string
  times: Latency[]
}

const FIRST_SHOWN = 6
const DAY_S = 86_400

export function LatencyCharts({ of, time }: { of: LatencySeries[]; time: Overview }) {
  const t = useTranslate()
  const [all, setAll] = useState(false)
  const measured = of.filter((series) => series.times.length > 0)
  return (
    <>
      <div className="charts latencies">
        {measured.slice(0, all ? measured.length : FIRST_SHOWN).map(({ name, times }) => (
          <LatencyChart key={name} name={name} times={times} time={time} />
        ))}
      </div>
      {measured.length > FIRST_SHOWN && (
        <button className="quiet" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? t("overview.fewer") : t("overview.all", { n: measured.length })}
        </button>
      )}
    </>
  )
}

function LatencyChart({ name, times, time }: { name: string; times: Latency[]; time: Overview }) {
  const t = useTranslate()
  const language = useLanguage()
  const maxMs = Math.max(...times.map((point) => point.p95_ms), 1)
  const title = t("overview.timesOf", { name })
  const begin = [time.until - time.since >= DAY_S && formatDay(time.since, language), formatClock(time.since, language)].filter(Boolean).join(" ")
  return (
    <figure className="chart" aria-label={title}>
      <figcaption>
        <code>{name}</code>
        <span className="chart-names" aria-hidden>
          <span>
            <i data-tone="accent" /> p50
          </span>
          <span>
            <i data-tone="warn" /> p95
          </span>
        </span>
      </figcaption>
      <div className="latency-chart" aria-hidden>
        <span className="latency-chart-max">{formatDuration(maxMs)}</span>
        <svg viewBox="0 0 100 100" preserveAspectRatio="none">
          <path className="grid" d="M0 0H100M0 50H100M0 100H100" />
          {(["p95_ms", "p50_ms"] as const).map((field) => (
            <g key={field} className={field}>
              <path d={`M${toCoordinates(times, field, time, maxMs).join("L")}`} />
              <path className="dots" d={toCoordinates(times, field, time, maxMs).map((point) => `M${point}h0`).join("")} />
            </g>
          ))}
        </svg>
        <span className="latency-chart-edges">
          <span>{begin}</span>
          <span>{t("overview.now")}</span>
        </span>
      </div>
      <ScreenReaderTable title={title} rows={times.map(({ at, p50_ms, p95_ms }) => ({ at, cells: [`p50: ${formatDuration(p50_ms)}`, `p95: ${formatDuration(p95_ms)}`] }))} />
    </figure>
  )
}

/** Return the coordinates of the points in percent, each in the middle of its time step. */
function toCoordinates(times: Latency[], field: "p50_ms" | "p95_ms", time: Overview, maxMs: number): string[] {
  return times.map((point) => `${toPercent((point.at + time.step_s / 2 - time.since) / (time.until - time.since))} ${toPercent(1 - point[field] / maxMs)}`)
}

function toPercent(share: number): string {
  return (share * 100).toFixed(2)
}
