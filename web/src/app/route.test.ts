import { expect, test } from "vitest"
import { buildHref, parseRoute } from "./route"

test("an address leads to a page, and back", () => {
  expect(parseRoute(buildHref("traces", "in:a/b c%"))).toEqual({ page: "traces", id: "in:a/b c%" })
  expect(parseRoute("#/nowhere/x")).toEqual({ page: "chat", id: "" })
})

test("an address that cannot be read breaks nothing", () => {
  expect(parseRoute("#/tools/100%")).toEqual({ page: "tools", id: "100%" })
})
