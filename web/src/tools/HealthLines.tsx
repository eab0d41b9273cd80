import { relative } from "../format"
import { useLanguage, useSay } from "../locales"
import type { Health } from "./health"

/** How often it failed, when it was called last, and what went wrong last. */
export function HealthLines({ health }: { health: Health }) {
  const say = useSay()
  const language = useLanguage()
  const ago = (at: number) => relative(at, Date.now() / 1000, language)
  const rate = new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1 }).format(health.errors / (health.calls || 1))
  if (health.lastAt === null) return null
  return (
    <div className="health">
      <p className="facts">
        <span>{say("health.rate", { n: health.calls, rate })}</span>
        <span>{say("health.lastCall", { when: ago(health.lastAt) })}</span>
      </p>
      {health.lastErrorAt !== null && (
        <p className="facts">
          <span className="problem">{say("health.lastError", { when: ago(health.lastErrorAt), error: health.lastError })}</span>
        </p>
      )}
    </div>
  )
}
