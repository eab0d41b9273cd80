import { expect, test } from "vitest"
import { parseTarget } from "./target"

test("a conversation, its call and a server lead to their pages", () => {
  expect(parseTarget({ action: "call.approve", target: "conv_1/call_2" })).toEqual({ href: "#/chat/conv_1", text: "conv_1", rest: "/call_2" })
  expect(parseTarget({ action: "conversation.export", target: "conv_1" })).toEqual({ href: "#/chat/conv_1", text: "conv_1", rest: "" })
  expect(parseTarget({ action: "server.stop", target: "files" })).toEqual({ href: "#/servers/files", text: "files", rest: "" })
  expect(parseTarget({ action: "pin.accept", target: "files: read, write" })).toEqual({ href: "#/servers/files", text: "files", rest: ": read, write" })
})

test("what is gone or has no page leads nowhere", () => {
  for (const action of ["conversation.delete", "server.remove", "key.add", "config.load"] as const) {
    expect(parseTarget({ action, target: "a/b: c" })).toEqual({ href: "", text: "a/b: c", rest: "" })
  }
  expect(parseTarget({ action: "server.stop", target: "" }).href).toBe("")
})
