import { Marked } from "marked"
import { expect, test } from "vitest"
import { createMathExtension, matchFormula } from "./mathTokens"

const marked = new Marked(createMathExtension((text) => text.replaceAll("<", "&lt;")))
const render = (text: string) => String(marked.parse(text)).trim()

test.each([
  ["$x_1 + x_2$ is it", "$x_1 + x_2$"],
  ["\\(a\\) b", "\\(a\\)"],
  ["$$\na\n$$ b", "$$\na\n$$"],
  ["\\[a < b\\]", "\\[a < b\\]"],
  ["$5 and $6", ""],
  ["$5-$6", ""],
  ["$ x $", ""],
  ["$$ $$", ""],
  ["$a\nb$", ""],
  ["\\(never closed", ""],
  [`$$${"x".repeat(3000)}$$`, ""],
])("the formula at the beginning of %j is %j", (text, formula) => {
  expect(matchFormula(text)).toBe(formula)
})

test("a formula is one element whatever Markdown its letters would be", () => {
  expect(render("It is $a_1 * b_1 * c$.")).toBe("<p>It is <var>$a_1 * b_1 * c$</var>.</p>")
  expect(render("$$\na\n+ b <x>\n$$\nafter")).toBe("<p><var>$$\na\n+ b &lt;x>\n$$</var></p><p>after</p>")
})

test("prices and code are no formulas", () => {
  expect(render("It costs $5, not $6.")).not.toContain("<var>")
  expect(render("`$x$` and\n\n```\n$x$\n```")).not.toContain("<var>")
})
