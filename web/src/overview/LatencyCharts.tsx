// How long each tool, or each model, took over time: a small drawing for each, those that are used most first.
import { useState } from "react"
import { clock, day, duration } from "../format"
import type { Latency, Overview } from "../wire/types"
import { useLanguage, useSay } from "../locales"
import { TableToRead } from "./ScreenReaderTable"

interface Timed {
  name: string
  times: Latency[]
}

const FIRST = 6
const DAY_S = 86_400

export function Latencies({ of, time }: { of: Timed[]; time: Overview }) {
  const say = useSay()
  const [all, setAll] = useState(false)
  const timed = of.filter((one) => one.times.length > 0)
  return (
    <>
      <div className="charts latencies">
        {timed.slice(0, all ? timed.length : FIRST).map((one) => (
          <LatencyChart key={one.name} name={one.name} times={one.times} time={time} />
        ))}
      </div>
      {timed.length > FIRST && (
        <button className="quiet" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? say("overview.fewer") : say("overview.all", { n: timed.length })}
        </button>
      )}
    </>
  )
}

function LatencyChart({ name, times, time }: { name: string; times: Latency[]; time: Overview }) {
  const say = useSay()
  const language = useLanguage()
  const most = Math.max(...times.map((one) => one.p95_ms), 1)
  const title = say("overview.timesOf", { name })
  const begin = [time.until - time.since >= DAY_S && day(time.since, language), clock(time.since, language)].filter(Boolean).join(" ")
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
      <div className="drawing" aria-hidden>
        <span className="drawing-most">{duration(most)}</span>
        <svg viewBox="0 0 100 100" preserveAspectRatio="none">
          <path className="grid" d="M0 0H100M0 50H100M0 100H100" />
          {(["p95_ms", "p50_ms"] as const).map((field) => (
            <g key={field} className={field}>
              <path d={`M${placesOf(times, field, time, most).join("L")}`} />
              <path className="dots" d={placesOf(times, field, time, most).map((one) => `M${one}h0`).join("")} />
            </g>
          ))}
        </svg>
        <span className="drawing-edges">
          <span>{begin}</span>
          <span>{say("overview.now")}</span>
        </span>
      </div>
      <TableToRead title={title} rows={times.map((one) => ({ at: one.at, cells: [`p50: ${duration(one.p50_ms)}`, `p95: ${duration(one.p95_ms)}`] }))} />
    </figure>
  )
}

/** Where the points lie, each in the middle of its step. */
function placesOf(times: Latency[], field: "p50_ms" | "p95_ms", time: Overview, most: number): string[] {
  return times.map((one) => `${place((one.at + time.step_s / 2 - time.since) / (time.until - time.since))} ${place(1 - one[field] / most)}`)
}

function place(share: number): string {
  return (share * 100).toFixed(2)
}
