// A chart over time. The canvas is hidden from screen readers, which read a table of the same figures.
import { useEffect, useRef } from "react"
import uPlot from "uplot"
import "uplot/dist/uPlot.min.css"
import "../style/charts.css"
import { formatClock, formatDay, formatDuration } from "../app/format"
import type { Point } from "../wire/types"
import { useLanguage, type Language } from "../locales"
import { ScreenReaderTable } from "./ScreenReaderTable"

export interface Series {
  name: string
  field: Exclude<keyof Point, "at">
  tone: "accent" | "bad" | "warn"
}

interface ChartProps {
  title: string
  points: Point[]
  series: Series[]
  /** Durations in milliseconds, drawn as lines. Otherwise counts, drawn as bars. */
  lines?: boolean
}

export function Chart({ title, points, series, lines = false }: ChartProps) {
  const language = useLanguage()
  const container = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const box = container.current!
    const data: uPlot.AlignedData = [points.map((point) => point.at), ...series.map(({ field }) => points.map((point) => point[field]))]
    let plot = new uPlot(buildOptions(box, series, language, lines), data, box)
    const redraw = () => {
      plot.destroy()
      plot = new uPlot(buildOptions(box, series, language, lines), data, box)
    }
    const resize = new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: HEIGHT_PX }))
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
    // The series are a new array in each render; their names change only with the language.
  }, [points, series.map(({ name }) => name).join(), language])
  return (
    <figure className="chart">
      <figcaption>
        {title}
        <span className="chart-names" aria-hidden>
          {series.map(({ field, tone, name }) => (
            <span key={field}>
              <i data-tone={tone} /> {name}
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={container} aria-hidden className="chart-place" />
      <ScreenReaderTable title={title} rows={toRows(points, series, lines)} />
    </figure>
  )
}

/** Return a row for each point that has a value: most points of a quiet server have none. */
function toRows(points: Point[], series: Series[], lines: boolean): { at: number; cells: string[] }[] {
  const filled = points.filter((point) => series.some(({ field }) => (point[field] ?? 0) > 0))
  const figure = (value: number | null) => (value === null ? "–" : lines ? formatDuration(value) : String(value))
  return filled.map((point) => ({ at: point.at, cells: series.map(({ name, field }) => `${name}: ${figure(point[field])}`) }))
}

/** Return half of the time between two points: the margin that the first and the last bar need. */
function halfStep(plot: uPlot): number {
  const [first = 0, second = first] = plot.data[0]
  return (second - first) / 2
}

const HEIGHT_PX = 190
const DAY_S = 86_400
/** Steps of an axis of counts: there is no half run. */
const WHOLE_STEPS = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat()
const bars = uPlot.paths.bars!({ size: [0.8, 26, 4], radius: 0.2 })

function buildOptions(box: HTMLElement, series: Series[], language: Language, lines: boolean): uPlot.Options {
  const colour = (name: string) => {
    box.style.color = `var(--${name})` // a canvas cannot read CSS variables, so the computed colour is taken
    return getComputedStyle(box).color
  }
  const axis: uPlot.Axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" }
  const short = new Intl.NumberFormat(language, { notation: "compact" })
  return {
    width: Math.max(200, box.clientWidth),
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { range: (plot, min, max) => [min - halfStep(plot), max + halfStep(plot)] }, y: { range: (_, __, max) => [0, Math.max(4, (max ?? 0) * 1.1)] } },
    axes: [
      { ...axis, grid: { show: false }, size: 32, values: (_, times, __, ___, step) => times.map((at) => (step < DAY_S ? formatClock(at, language) : formatDay(at, language))) },
      { ...axis, size: 56, ...(lines ? {} : { incrs: WHOLE_STEPS }), values: (_, values) => values.map((value) => (lines && value ? formatDuration(value) : short.format(value))) },
    ],
    series: [{}, ...series.map(({ name, tone }) => ({ label: name, stroke: colour(tone), fill: colour(tone), ...(lines ? { fill: undefined, width: 3, spanGaps: true, points: { show: true, size: 8, fill: colour(tone) } } : { width: 0, paths: bars, points: { show: false } }) }))],
  }
}
