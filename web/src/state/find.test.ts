import { expect, test } from "vitest"
import { hasItem, listMatches } from "./find"
import type { Row } from "./view"

const USER: Row = { kind: "user", key: "u", at: 1, item: { type: "user_message", id: "u", at: 1, parts: [{ type: "text", text: "Apples and\nPEARS" }] } }
const TURN: Row = { kind: "turn", key: "t", at: 2, number: 1, open: false, restarted: 0, model: "", head: "m", parts: [{ kind: "text", id: "m", text: "Some **ripe** pears_" }] }

test("rows are found by what can be read in them", () => {
  expect(listMatches([USER, TURN], "pears")).toEqual(["u", "t"])
  expect(listMatches([USER, TURN], "and pears")).toEqual(["u"])
  expect(listMatches([USER, TURN], "ripe pears")).toEqual(["t"])
  expect(listMatches([USER, TURN], "plums")).toEqual([])
  expect(listMatches([USER, TURN], "  ")).toEqual([])
})

test("a message is found in its row, or in the turn that it is a part of", () => {
  expect([USER, TURN].map((row) => hasItem(row, "m"))).toEqual([false, true])
  expect([USER, TURN].map((row) => hasItem(row, "u"))).toEqual([true, false])
})
