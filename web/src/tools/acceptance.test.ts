import { expect, test } from "vitest"
import type { AuditEntryView } from "../wire/types"
import { findAcceptances } from "./acceptance"

const entry = (number: number, target: string, outcome: AuditEntryView["outcome"] = "allowed"): AuditEntryView => ({
  number, target, outcome, at: number, action: "pin.accept", tenant: "", actor: "ann", actor_tenant: "", key: "", address: "", content_hash: "", cause: 0, count: 1, correlation_id: "", previous: "", hash: "",
})

test("the last acceptance of each tool of the server is found", () => {
  const found = findAcceptances([entry(5, "files: read", "failed"), entry(4, "files: read, write"), entry(3, "files: write, list"), entry(2, "files: x: read"), entry(1, "file: copy")], "files")
  expect([...found].map(([tool, { number }]) => [tool, number])).toEqual([
    ["read", 4],
    ["write", 4],
    ["list", 3],
    ["x: read", 2],
  ])
})
