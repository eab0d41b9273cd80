import { formatCount } from "../app/format"
import { useLanguage, useTranslate } from "../locales"
import { useUsageText } from "../locales/usage"
import { describeCost } from "./describeSpending"
import type { Split, UsageTableRow } from "./usageRows"

export function UsageTable({ rows, split }: { rows: UsageTableRow[]; split: Split }) {
  const t = useTranslate()
  const u = useUsageText()
  const language = useLanguage()
  const nameless = { user: u("noUser"), model: u("noModel"), day: "" }[split]
  return (
    <div className="table-frame" tabIndex={0} role="region" aria-label={u(`by.${split}`)}>
      <table className="usage">
        <thead>
          <tr>
            <th scope="col">{split === "model" ? t("traces.model") : u(split)}</th>
            <th scope="col" className="number">
              {u("cost")}
            </th>
            <th scope="col" className="number">
              {t("overview.turns")}
            </th>
            <th scope="col" className="number">
              {t("overview.input")}
            </th>
            <th scope="col" className="number">
              {t("overview.output")}
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, turns, spending }) => (
            <tr key={name}>
              <th scope="row" className="clip" title={name}>
                {name || nameless}
              </th>
              <td className="number">{describeCost(spending, language) || "–"}</td>
              <td className="number">{formatCount(turns, language)}</td>
              <td className="number">{formatCount(spending.inputTokens, language)}</td>
              <td className="number">{formatCount(spending.outputTokens, language)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
