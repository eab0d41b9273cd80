// Who may decide a call. The server checks the same again; the page only leaves out what would be refused.
import type { Translate } from "../locales"
import type { CallView } from "../state/view"
import type { ApprovalTerms, Me } from "../wire/types"

/** Return whether the user may decide a call: `mine` says whether it is of their own conversation. */
export function mayDecideCall(call: CallView, me: Pick<Me, "user" | "roles">, mine: boolean): boolean {
  if (call.mayDecide !== undefined) return call.mayDecide
  const { terms } = call
  if (call.approvedBy?.includes(me.user)) return false
  if (terms?.other && mine) return false
  if (terms?.approvers?.length) return terms.approvers.some((entry) => entry === `user:${me.user}` || me.roles.some((role) => entry === `role:${role}`))
  return mine || me.roles.includes("approver")
}

/**
 * Return whom the calls of a run wait for: empty if that is the user, else a name. `owner` is the owner of the
 * conversation, who decides where a call does not say otherwise. Calls of applications wait for these.
 */
export function describeWait(calls: readonly CallView[], me: Pick<Me, "user" | "roles">, owner: string, t: Translate): string {
  const mine = owner === me.user
  if (calls.some((call) => (call.phase === "asking" ? mayDecideCall(call, me, mine) : call.parked?.kind !== "client" && mine))) return ""
  const asking = calls.find((call) => call.phase === "asking")
  if (asking?.terms) return describeApprovers(asking.terms, t)
  return asking || calls.some((call) => call.parked?.kind !== "client") ? owner : t("chat.application")
}

export function countRemaining(call: CallView): number {
  return Math.max(1, (call.terms?.quorum ?? 1) - (call.approvedBy?.length ?? 0))
}

/** Return the roles and users who may decide, in one line. */
export function describeApprovers(terms: Pick<ApprovalTerms, "approvers">, t: Translate): string {
  return terms.approvers?.map((entry) => describeApprover(entry, t)).join(", ") || t("ask.approvers")
}

function describeApprover(entry: string, t: Translate): string {
  const name = entry.replace(/^(?:role|user):/, "")
  return t(entry.startsWith("role:") ? "ask.approverRole" : "ask.approverUser", { name })
}
