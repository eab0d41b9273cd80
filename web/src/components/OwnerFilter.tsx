import { maySeeTenant, useMe } from "../caller"
import { useSay } from "../locales"

/** Mine or everybody's, for those who may see their tenant's. */
export function Whose({ everyone, onChange }: { everyone: boolean; onChange: (everyone: boolean) => void }) {
  const say = useSay()
  const me = useMe()
  if (!maySeeTenant(me) || me.keyless) return null
  return (
    <div className="switch" role="group" aria-label={say("list.everyone")}>
      <button type="button" aria-pressed={!everyone} onClick={() => onChange(false)}>
        {say("list.mine")}
      </button>
      <button type="button" aria-pressed={everyone} onClick={() => onChange(true)}>
        {say("list.everyone")}
      </button>
    </div>
  )
}

/** Operators begin with their tenant's. */
export function useEveryone(): boolean {
  const me = useMe()
  return maySeeTenant(me) && !me.keyless
}
