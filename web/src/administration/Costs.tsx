// Budgets and prices: what runs may cost, and what models cost.
import { buildHref } from "../app/route"
import { useAdministrationText } from "../locales/administration"
import { useModels } from "../state/models"
import { EntryList } from "./settings/EntryList"
import { useSettings } from "./settings/requests"

/** The kinds of setting of this section. */
export const COST_KINDS = ["budgets", "prices"]

const CURRENCIES = ["USD", "EUR", "GBP", "CHF", "JPY", "CNY", "INR"]
const BUDGET_FIELDS = ["amount", "currency", "window", "time_zone", "scope", "only", "on_reach"]
const PRICE_FIELDS = ["input", "output", "cached", "cache_write", "currency"]

export function Costs() {
  const a = useAdministrationText()
  const { data, problem, refetch } = useSettings()
  const models = useModels()?.models.map(({ id }) => id) ?? []
  if (!data) return problem ? <p className="problem">{problem}</p> : null
  const listProps = (kind: string) => ({
    kind,
    entries: data.settings.filter((entry) => entry.kind === kind),
    fields: data.forms.find((form) => form.kind === kind)?.fields ?? [],
    onChanged: refetch,
  })
  return (
    <>
      <EntryList
        {...listProps("budgets")}
        title={a("costs.budgets")}
        about={a("costs.budgetsAbout")}
        nameLabel={a("name")}
        names={[]}
        mainFields={BUDGET_FIELDS}
        initial={{ window: "month", time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone }}
        suggestions={{ time_zone: Intl.supportedValuesOf("timeZone"), currency: CURRENCIES }}
      />
      <p>
        <a href={buildHref("usage")}>{a("costs.left")}</a>
      </p>
      <EntryList {...listProps("prices")} title={a("costs.prices")} about={a("costs.pricesAbout")} nameLabel={a("models.entryName")} names={models} mainFields={PRICE_FIELDS} suggestions={{ currency: CURRENCIES }} />
    </>
  )
}
