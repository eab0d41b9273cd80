// What the user has used and what it cost; for operators also that of others, by person, model and day. And the budgets.
import { Download } from "lucide-react"
import { useState } from "react"
import { formatCount } from "../app/format"
import { Figure } from "../components/Figure"
import { useLanguage, useTranslate } from "../locales"
import { useUsageText } from "../locales/usage"
import { maySeeUsageOfOthers, useMe } from "../session/caller"
import { SPENDING_PREFERENCES, setSpendingPreference, useSpendingPreference } from "../state/spendingPreference"
import { resolveUrl } from "../wire/http"
import type { UsageReport } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { Budgets } from "./Budgets"
import { Switch } from "./Switch"
import { UsageTable } from "./UsageTable"
import { describeCost } from "./describeSpending"
import { SPLITS, buildRows, buildUsagePath, listDefaultDays, sumRows, type Split } from "./usageRows"
import "../style/usage.css"

const OWNERS = ["mine", "everyone"] as const

export default function Usage() {
  const t = useTranslate()
  const u = useUsageText()
  const language = useLanguage()
  const me = useMe()
  const seesOthers = maySeeUsageOfOthers(me)
  const [everyone, setEveryone] = useState(seesOthers)
  const [split, setSplit] = useState<Split>(seesOthers ? "user" : "model")
  const [days, setDays] = useState(() => listDefaultDays(Date.now()))
  const splits = SPLITS.filter((name) => everyone || name !== "user")
  const shown = splits.includes(split) ? split : "model"
  const people = me.tenant ? "user" : "tenant,user" // people of two tenants may have one name
  const { data, problem } = useQuery<UsageReport>(buildUsagePath(days, shown === "user" ? people : shown, everyone))
  const rows = data ? buildRows(data.usage, shown) : []
  const { turns, spending } = sumRows(rows)
  const figure = (value: string) => (data ? value : "–")
  const preference = useSpendingPreference()
  return (
    <div className="page usage-page">
      <header className="page-head">
        <h1>{u("title")}</h1>
        {seesOthers && !me.keyless && <Switch label={t("list.everyone")} options={OWNERS} value={everyone ? "everyone" : "mine"} onChange={(owner) => setEveryone(owner === "everyone")} describe={(owner) => t(`list.${owner}`)} />}
      </header>
      <div className="filters">
        <label>
          <span>{u("from")}</span>
          <input type="date" value={days.from} max={days.to} onChange={(event) => setDays({ ...days, from: event.target.value })} />
        </label>
        <label>
          <span>{u("to")}</span>
          <input type="date" value={days.to} min={days.from} onChange={(event) => setDays({ ...days, to: event.target.value })} />
        </label>
        <a className="button" href={resolveUrl(buildUsagePath(days, everyone ? `day,${people},model` : "day,model", everyone, "csv")).href} download>
          <Download aria-hidden /> {u("csv")}
        </a>
        <small className="about">{u("utc")}</small>
      </div>
      {problem && <p className="problem">{problem}</p>}
      <dl className="figures">
        <Figure name={u("cost")} value={figure(describeCost(spending, language) || "–")} />
        <Figure name={t("overview.turns")} value={figure(formatCount(turns, language))} />
        <Figure name={t("overview.input")} value={figure(formatCount(spending.inputTokens, language))} />
        <Figure name={t("overview.output")} value={figure(formatCount(spending.outputTokens, language))} />
      </dl>
      <section aria-label={u("split")}>
        <Switch label={u("split")} options={splits} value={shown} onChange={setSplit} describe={(name) => u(`by.${name}`)} />
        {data && rows.length === 0 && <p className="empty">{u("none")}</p>}
        {data && rows.length > 0 && <UsageTable rows={rows} split={shown} />}
        {data && !data.complete && <p className="about">{u("incomplete")}</p>}
        {spending.unknown > 0 && <p className="about">{u("unknownAbout")}</p>}
      </section>
      <Budgets />
      <section aria-labelledby="spending-title">
        <h2 id="spending-title">{u("show")}</h2>
        <Switch label={u("show")} options={SPENDING_PREFERENCES} value={preference} onChange={setSpendingPreference} describe={(name) => u(`show.${name}`)} />
      </section>
    </div>
  )
}
