import { expect, test } from "vitest"
import { getFirstSentence, humanize, nameTool } from "./humanize"

test("a machine name is read as words", () => {
  for (const name of ["pay_invoice", "payInvoice", "bank__pay_invoice", "pay-invoice"]) expect(humanize(name)).toBe("Pay invoice")
  expect(humanize("x")).toBe("X")
  expect(nameTool("pay_invoice", "Pay it")).toBe("Pay it")
  expect(nameTool("pay_invoice")).toBe("Pay invoice")
})

test("a description begins with a sentence", () => {
  expect(getFirstSentence("Pay an invoice, of 3.5 days. It costs\nmoney.")).toBe("Pay an invoice, of 3.5 days.")
  expect(getFirstSentence("Pay an\ninvoice\n\nMore.")).toBe("Pay an invoice")
})
