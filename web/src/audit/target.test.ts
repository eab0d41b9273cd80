import { expect, test } from "vitest"
import type { AuditEntryView, Me } from "../wire/types"
import { parseTarget } from "./target"

function me(tenant: string, ...roles: string[]): Me {
  return { user: "ada", roles, tenant, division: "", key: "", keyless: false, model: "", keeps_requests: true, max_file_bytes: 20_000_000, reads_documents: false, success: true }
}

function entry(action: AuditEntryView["action"], target: string, actor = "ann") {
  return { action, target, actor, actor_tenant: "acme", tenant: "acme" }
}

const OPERATOR = me("acme", "admin", "operator")

test("a conversation, its call and a server lead to their pages", () => {
  for (const action of ["call.approve", "original.read", "message.delete"] as const) {
    expect(parseTarget(entry(action, "conv_1/call_2"), OPERATOR)).toEqual({ href: "#/chat/conv_1", text: "conv_1", rest: "/call_2" })
  }
  expect(parseTarget(entry("conversation.export", "conv_1"), OPERATOR)).toEqual({ href: "#/chat/conv_1", text: "conv_1", rest: "" })
  expect(parseTarget(entry("server.stop", "files"), OPERATOR)).toEqual({ href: "#/servers/files", text: "files", rest: "" })
  expect(parseTarget(entry("pin.accept", "files: read, write"), OPERATOR)).toEqual({ href: "#/servers/files", text: "files", rest: ": read, write" })
})

test("what is gone or has no page leads nowhere", () => {
  for (const action of ["conversation.delete", "server.remove", "key.add", "config.load"] as const) {
    expect(parseTarget(entry(action, "a/b: c"), OPERATOR)).toEqual({ href: "", text: "a/b: c", rest: "" })
  }
  expect(parseTarget(entry("server.stop", ""), OPERATOR).href).toBe("")
})

test("a conversation that the reader may not see leads nowhere", () => {
  const links = (reader: Me, action: AuditEntryView["action"], actor?: string) => parseTarget(entry(action, "conv_1/2", actor), reader).href !== ""
  expect(links(me("acme", "admin", "approver"), "call.approve")).toBe(true)
  expect(links(me("acme", "admin"), "call.approve")).toBe(false)
  expect(links(me("", "admin", "operator"), "call.approve")).toBe(false)
  expect(links(me("acme", "admin"), "share.create", "ada")).toBe(true)
  expect(links(me("acme", "admin"), "call.approve", "ada")).toBe(false)
})
