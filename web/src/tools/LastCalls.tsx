// The last calls of a tool that the user may see, with their times.
import { useId } from "react"
import { formatDuration, formatShortDateTime } from "../app/format"
import { buildHref } from "../app/route"
import { useTenantByDefault } from "../components/OwnerFilter"
import { useLanguage, useTranslate } from "../locales"
import type { RunList } from "../wire/types"
import { useQuery } from "../wire/useQuery"

const MAX_CALLS = 10
const POLL_MS = 10_000

export function LastCalls({ tool }: { tool: string }) {
  const t = useTranslate()
  const language = useLanguage()
  const heading = useId()
  const { data } = useQuery<RunList>(`traces?tool=${encodeURIComponent(tool)}&limit=${MAX_CALLS}${useTenantByDefault() ? "&whose=tenant" : ""}`, POLL_MS)
  const calls = data?.runs
    .flatMap((run) => run.calls.filter((call) => call.tool === tool).map((call) => ({ ...call, trace: run.correlation_id, user: run.user })))
    .sort((one, other) => other.at - one.at)
    .slice(0, MAX_CALLS)
  if (!calls?.length) return null
  return (
    <section aria-labelledby={heading}>
      <h2 id={heading}>{t("tools.lastCalls")}</h2>
      <div className="table-frame" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">{t("traces.when")}</th>
              <th scope="col">{t("traces.user")}</th>
              <th scope="col">{t("traces.status")}</th>
              <th scope="col" className="number">
                {t("traces.took")}
              </th>
            </tr>
          </thead>
          <tbody>
            {calls.map((call, index) => (
              <tr key={`${call.trace}/${call.at}/${index}`}>
                <td>
                  <a href={buildHref("traces", call.trace)}>{formatShortDateTime(call.at, language)}</a>
                </td>
                <td>{call.user}</td>
                <td className={call.outcome && call.outcome !== "ok" ? "bad" : ""} title={call.error || undefined}>
                  {call.outcome ? t(`outcome.${call.outcome}`) : t("traces.active")}
                </td>
                <td className="number">{call.took_ms === null ? "–" : formatDuration(call.took_ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
