import { expect, test } from "vitest"
import { buildHref, buildMessageHref, parseRoute } from "./route"

test("an address leads to a page, and back", () => {
  expect(parseRoute(buildHref("traces", "in:a/b c%"))).toEqual({ page: "traces", id: "in:a/b c%" })
  expect(parseRoute("#/nowhere/x")).toEqual({ page: "chat", id: "", item: "", find: "" })
})

test("an address leads to a message of a conversation", () => {
  expect(parseRoute(buildMessageHref("c/1", "item_2", "50% of"))).toEqual({ page: "chat", id: "c/1", item: "item_2", find: "50% of" })
  expect(parseRoute(buildHref("chat", "c"))).toEqual({ page: "chat", id: "c", item: "", find: "" })
})

test("an address that cannot be read breaks nothing", () => {
  expect(parseRoute("#/tools/100%")).toEqual({ page: "tools", id: "100%" })
})
