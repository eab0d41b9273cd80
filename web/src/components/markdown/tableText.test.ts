import { expect, test } from "vitest"
import { findNumberColumns, toCsv } from "./tableText"

test("columns of numbers are found, whatever their signs and units", () => {
  const rows = [["milk", "1,200.50", "12 %", "€ 3", "2026-01-02"], ["bread", "", "-4%", "4 €", "2026-01-03"]]
  expect(findNumberColumns(rows)).toEqual([false, true, true, true, false])
})

test("a column without a value is not one of numbers", () => {
  expect(findNumberColumns([["", "1"], ["–", "x"]])).toEqual([false, false])
})

test("cells are quoted where CSV needs it, and no cell becomes a formula", () => {
  expect(toCsv([["a,b", 'say "hi"'], ["=1+1", "-5"], ["two\nlines", "-x"]])).toBe('"a,b","say ""hi"""\r\n\'=1+1,-5\r\n"two\nlines",\'-x')
})
