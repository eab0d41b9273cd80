// Who uses the page, and what their roles let them see.
import { createContext, useContext } from "react"
import type { Me } from "./wire/types"

export const CallerContext = createContext<Me | null>(null)

export function useMe(): Me {
  const me = useContext(CallerContext)
  if (!me) throw new Error("nobody is signed in")
  return me
}

/** Operators and approvers see what is their tenant's; everybody else only what is theirs. */
export function seesTenant(me: Me): boolean {
  return me.roles.includes("operator") || me.roles.includes("approver")
}

export function isAdmin(me: Me): boolean {
  return me.roles.includes("admin")
}
