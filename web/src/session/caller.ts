// Who uses the page, and what their roles let them see and do. The server checks the same again; the page only leaves
// out what would be refused.
import { createContext, useContext } from "react"
import type { Me, OpenRun } from "../wire/types"

export const CallerContext = createContext<Me | null>(null)

export function useMe(): Me {
  const me = useContext(CallerContext)
  if (!me) throw new Error("nobody is signed in")
  return me
}

/** Return whether the caller sees the conversations and runs of the whole tenant, not only their own. */
export function maySeeTenant(me: Me): boolean {
  return me.roles.includes("operator") || me.roles.includes("approver")
}

/** Return whether the caller may open the conversation of a run. Whoever is only named as an approver may not. */
export function maySeeRun(me: Me, run: Pick<OpenRun, "may_stop">): boolean {
  return run.may_stop || maySeeTenant(me)
}

/** Return whether the caller administers the server or their tenant. */
export function isAdmin(me: Me): boolean {
  return me.roles.includes("admin")
}

/** Return whether the caller may change what all tenants share, such as MCP servers. A tenant's administrator may not. */
export function isServerAdmin(me: Me): boolean {
  return isAdmin(me) && !me.tenant
}

/** Return whether the caller sees the usage of others: that of the tenant, or of the server without one. */
export function maySeeUsageOfOthers(me: Me): boolean {
  return me.roles.includes("operator") || isAdmin(me)
}

/** Return whether the caller may read recorded model requests: operators and administrators, of a tenant too. */
export function mayReadRecordedTurns(me: Me): boolean {
  return me.roles.includes("operator") || isAdmin(me)
}
