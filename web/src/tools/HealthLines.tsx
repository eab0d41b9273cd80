import { formatRelative } from "../app/format"
import { useLanguage, useTranslate } from "../locales"
import type { Health } from "./health"

/** How often calls failed, when the last call was, and the last error. */
export function HealthLines({ health }: { health: Health }) {
  const t = useTranslate()
  const language = useLanguage()
  const formatAgo = (at: number) => formatRelative(at, Date.now() / 1000, language)
  const rate = new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1 }).format(health.errors / (health.calls || 1))
  if (health.lastAt === null) return null
  return (
    <div className="health">
      <p className="facts">
        <span>{t("health.rate", { n: health.calls, rate })}</span>
        <span>{t("health.lastCall", { when: formatAgo(health.lastAt) })}</span>
      </p>
      {health.lastErrorAt !== null && (
        <p className="facts">
          <span className="problem">{t("health.lastError", { when: formatAgo(health.lastErrorAt), error: health.lastError })}</span>
        </p>
      )}
    </div>
  )
}
