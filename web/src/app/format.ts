// Times, durations, sizes and counts as people read them, in their language.
import type { Language } from "../locales"

export function formatClock(at: number, language: Language): string {
  return new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).format(at * 1000)
}

export function formatDay(at: number, language: Language): string {
  return new Intl.DateTimeFormat(language, { month: "short", day: "numeric" }).format(at * 1000)
}

export function formatDateTime(at: number, language: Language): string {
  return new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" }).format(at * 1000)
}

/** Return a date and time in few characters: without the day if it is today, without the year if it is this year. */
export function formatShortDateTime(at: number, language: Language): string {
  const then = new Date(at * 1000)
  const now = new Date()
  const time = { hour: "2-digit", minute: "2-digit", second: "2-digit" } as const
  if (then.toDateString() === now.toDateString()) return then.toLocaleTimeString(language, time)
  const year = then.getFullYear() === now.getFullYear() ? undefined : "numeric"
  return then.toLocaleString(language, { month: "short", day: "numeric", year, hour: "2-digit", minute: "2-digit" })
}

export function formatDuration(ms: number): string {
  if (ms < 1) return "<1 ms"
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`
  return `${(ms / 3_600_000).toFixed(1)} h`
}

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
]

/** Return a length of time in its largest unit, in words: 12 hours, 1.5 days. */
export function formatSpan(seconds: number, language: Language): string {
  const [unit, size] = STEPS.find(([, size]) => seconds >= size) ?? ["second", 1]
  return new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "long", maximumFractionDigits: 1 }).format(seconds / size)
}

export function formatRelative(at: number, now: number, language: Language): string {
  const seconds = at - now
  const [unit, size] = STEPS.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1]
  return new Intl.RelativeTimeFormat(language, { numeric: "auto" }).format(Math.round(seconds / size), unit)
}

export function formatBytes(n: number): string {
  return n < 1024 ? `${n} B` : n < 1_048_576 ? `${(n / 1024).toFixed(1)} KB` : `${(n / 1_048_576).toFixed(1)} MB`
}

export function formatCount(n: number, language: Language): string {
  return new Intl.NumberFormat(language, { notation: n >= 100_000 ? "compact" : "standard", maximumFractionDigits: 1 }).format(n)
}
