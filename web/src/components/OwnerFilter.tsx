import { maySeeTenant, useMe } from "../session/caller"
import { useTranslate } from "../locales"

interface OwnerFilterProps {
  everyone: boolean
  onChange: (everyone: boolean) => void
  /** The name of the group for screen readers. */
  label?: string
}

/** A switch between the user's own and the whole tenant's, shown to those who may see their tenant's. */
export function OwnerFilter({ everyone, onChange, label }: OwnerFilterProps) {
  const t = useTranslate()
  const me = useMe()
  if (!maySeeTenant(me) || me.keyless) return null
  return (
    <div className="switch" role="group" aria-label={label ?? t("list.everyone")}>
      <button type="button" aria-pressed={!everyone} onClick={() => onChange(false)}>
        {t("list.mine")}
      </button>
      <button type="button" aria-pressed={everyone} onClick={() => onChange(true)}>
        {t("list.everyone")}
      </button>
    </div>
  )
}

/** Return whether a page begins with the whole tenant's: it does for those who may see it. */
export function useTenantByDefault(): boolean {
  const me = useMe()
  return maySeeTenant(me) && !me.keyless
}
