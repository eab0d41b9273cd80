import { expect, test } from "vitest"
import { isServerAdmin, mayReadRecordedTurns, maySeeRun } from "./caller"
import type { Me } from "../wire/types"

function me(tenant: string, ...roles: string[]): Me {
  return { user: "ann", roles, tenant, division: "", key: "", keyless: false, model: "", keeps_requests: true, max_file_bytes: 20_000_000, reads_documents: false, success: true }
}

test("only an administrator without a tenant administers the server", () => {
  expect(isServerAdmin(me("", "admin"))).toBe(true)
  expect(isServerAdmin(me("acme", "admin"))).toBe(false)
  expect(isServerAdmin(me("", "operator"))).toBe(false)
})

test("a tenant's administrator may read the recorded requests of the tenant", () => {
  expect(mayReadRecordedTurns(me("acme", "admin"))).toBe(true)
  expect(mayReadRecordedTurns(me("acme", "approver"))).toBe(false)
})

test("a run is seen by its owner and by operators and approvers, not by whoever is only named as an approver", () => {
  expect([maySeeRun(me("acme"), { may_stop: true }), maySeeRun(me("acme", "operator"), { may_stop: false })]).toEqual([true, true])
  expect([maySeeRun(me("acme"), { may_stop: false }), maySeeRun(me("acme", "admin"), { may_stop: false })]).toEqual([false, false])
})
