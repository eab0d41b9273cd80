import { expect, test } from "vitest"
import { findFieldProblem, parseLines, parseSuggestion, shortenProblems, splitLines, summarizeValue, withValue } from "./fieldKinds"

test("the only line is a word if it is one to choose, and a list if it is not", () => {
  expect([parseLines("all", ["all", "none"]), parseLines("pay", ["all", "none"]), parseLines("all\npay", ["all"]), parseLines(" ", ["all"])]).toEqual(["all", ["pay"], ["all", "pay"], undefined])
})

test("empty lines are no values, and a text without any line is no list", () => {
  expect([splitLines(" a \n\nb"), splitLines(" \n")]).toEqual([["a", "b"], undefined])
})

test("a suggestion is a number if it looks like one", () => {
  expect([parseSuggestion("2048"), parseSuggestion(" high "), parseSuggestion(" ")]).toEqual([2048, "high", undefined])
})

test("an undefined value is left out", () => {
  expect([withValue({ a: 1, b: 2 }, "a", undefined), withValue({ a: 1 }, "a", false)]).toEqual([{ b: 2 }, { a: false }])
})

test("a problem inside of a field belongs to it, and one of a field with a longer name does not", () => {
  const problems = { "headers.X-Key": "is wrong", headers_more: "too" }
  expect([findFieldProblem(problems, "headers"), findFieldProblem(problems, "header")]).toEqual(["is wrong", ""])
})

test("a summary says of a secret that it is stored, and of a table only the names", () => {
  expect([summarizeValue("***", "stored"), summarizeValue({ "X-Key": "***" }, "stored"), summarizeValue(["a", "b"], "stored"), summarizeValue(0.5, "stored")]).toEqual(["stored", "X-Key", "a, b", "0.5"])
})

test("a summary says the numbers of a table, and of each table in a list", () => {
  expect([summarizeValue({ web_search: 10 }, ""), summarizeValue([{ above: 5, input: 1 }], "")]).toEqual(["web_search 10", "(above 5, input 1)"])
})

test("an error at a field does not name the entry again", () => {
  const problems = { top_p: 'model_options."a:b".top_p must be from 0 to 1', api_key: "was given for another address" }
  expect(shortenProblems(problems, "model_options")).toEqual({ top_p: "must be from 0 to 1", api_key: "was given for another address" })
})
