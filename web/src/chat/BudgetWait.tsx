import { buildHref } from "../app/route"
import { useTranslate } from "../locales"
import { isServerAdmin, useMe } from "../session/caller"

/** Says that the run waits until the amount of a budget is raised, with a link for those who can raise it. */
export function BudgetWait({ name }: { name: string }) {
  const t = useTranslate()
  return (
    <p className="note" role="status">
      {t("chat.budgetWait", { name })} {isServerAdmin(useMe()) && <a href={buildHref("administration", "costs")}>{t("chat.budgetRaise")}</a>}
    </p>
  )
}
