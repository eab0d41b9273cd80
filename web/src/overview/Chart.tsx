// One chart over time. What it shows is also in a table that is read, not seen.
import { useEffect, useRef } from "react"
import uPlot from "uplot"
import "uplot/dist/uPlot.min.css"
import "../style/charts.css"
import { clock, day, duration } from "../format"
import type { Point } from "../wire/types"
import { useLanguage, type Language } from "../locales"
import { TableToRead } from "./ScreenReaderTable"

export interface Series {
  name: string
  field: Exclude<keyof Point, "at">
  tone: "accent" | "bad" | "warn"
}

interface ChartProps {
  title: string
  points: Point[]
  series: Series[]
  /** Times in milliseconds, as lines; otherwise counts, as bars. */
  lines?: boolean
}

export function Chart({ title, points, series, lines = false }: ChartProps) {
  const language = useLanguage()
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const box = place.current!
    const data: uPlot.AlignedData = [points.map((point) => point.at), ...series.map((one) => points.map((point) => point[one.field]))]
    let plot = new uPlot(options(box, series, language, lines), data, box)
    const redraw = () => {
      plot.destroy()
      plot = new uPlot(options(box, series, language, lines), data, box)
    }
    const resize = new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: HEIGHT }))
    resize.observe(box)
    const theme = new MutationObserver(redraw)
    theme.observe(document.documentElement, { attributeFilter: ["data-theme"] })
    const system = matchMedia("(prefers-color-scheme: dark)")
    system.addEventListener("change", redraw)
    return () => {
      system.removeEventListener("change", redraw)
      resize.disconnect()
      theme.disconnect()
      plot.destroy()
    }
  }, [points, series.map((one) => one.name).join(), language])
  return (
    <figure className="chart">
      <figcaption>
        {title}
        <span className="chart-names" aria-hidden>
          {series.map((one) => (
            <span key={one.field}>
              <i data-tone={one.tone} /> {one.name}
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={place} aria-hidden className="chart-place" />
      <TableToRead title={title} rows={rowsOf(points, series, lines)} />
    </figure>
  )
}

/** The points at which there is something to tell. */
function rowsOf(points: Point[], series: Series[], lines: boolean): { at: number; cells: string[] }[] {
  const told = points.filter((point) => series.some((one) => (point[one.field] ?? 0) > 0))
  const figure = (value: number | null) => (value === null ? "–" : lines ? duration(value) : String(value))
  return told.map((point) => ({ at: point.at, cells: series.map((one) => `${one.name}: ${figure(point[one.field])}`) }))
}

/** Half of the time between two points: so much room the first and the last bar need. */
function half(plot: uPlot): number {
  const [first = 0, second = first] = plot.data[0]
  return (second - first) / 2
}

const HEIGHT = 190
const DAY_S = 86_400
const bars = uPlot.paths.bars!({ size: [0.72, 26], radius: 0.2 })

function options(box: HTMLElement, series: Series[], language: Language, lines: boolean): uPlot.Options {
  const colour = (name: string) => {
    box.style.color = `var(--${name})` // a canvas needs the colour that it comes to
    return getComputedStyle(box).color
  }
  const axis: uPlot.Axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" }
  const short = new Intl.NumberFormat(language, { notation: "compact" })
  return {
    width: Math.max(200, box.clientWidth),
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { range: (plot, least, most) => [least - half(plot), most + half(plot)] }, y: { range: (_, __, most) => [0, Math.max(4, (most ?? 0) * 1.1)] } },
    axes: [
      { ...axis, grid: { show: false }, size: 32, values: (_, times, __, ___, step) => times.map((at) => (step < DAY_S ? clock(at, language) : day(at, language))) },
      { ...axis, size: 56, values: (_, values) => values.map((value) => (lines && value ? duration(value) : short.format(value))) },
    ],
    series: [{}, ...series.map((one) => ({ label: one.name, stroke: colour(one.tone), fill: colour(one.tone), ...(lines ? { fill: undefined, width: 2, spanGaps: true, points: { show: true, size: 5 } } : { width: 0, paths: bars, points: { show: false } }) }))],
  }
}
