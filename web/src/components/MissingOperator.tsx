import { buildHref } from "../app/route"
import { useTranslate } from "../locales"
import { isAdmin, maySeeTenant, useMe } from "../session/caller"

/** Tells an administrator why the runs of others are not shown, and how to grant that. */
export function MissingOperator() {
  const t = useTranslate()
  const me = useMe()
  if (!isAdmin(me) || maySeeTenant(me)) return null
  return (
    <p className="newer">
      {t("role.operatorMissing")} <a href={buildHref("administration", "keys/add")}>{t("role.operatorGrant")}</a>
    </p>
  )
}
