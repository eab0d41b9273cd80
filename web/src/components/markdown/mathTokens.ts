// Finds formulas in Markdown: $…$ and \(…\) in a line, $$…$$ and \[…\] on their own. They become <var> elements, which
// no other Markdown makes, with the source as text; the renderer replaces them once it is loaded.
import type { MarkedExtension, Tokens } from "marked"

/** A longer formula stays text. The bound also keeps texts with many unclosed delimiters cheap. */
const MAX_FORMULA_CHARS = 2000
const DELIMITERS = [
  ["$$", "$$"],
  ["\\[", "\\]"],
  ["\\(", "\\)"],
] as const
/** No space inside the delimiters and no digit after the second one: $5 and $6 are prices. */
const DOLLARS = /^\$(?![\s$])(?:\\[^\n]|[^$\\\n]){1,500}?(?<![\s\\])\$(?![\d$])/

/** Return the formula that the text begins with, with its delimiters; empty if there is none. */
export function matchFormula(text: string, delimiters: readonly (readonly [string, string])[] = DELIMITERS): string {
  for (const [open, close] of delimiters) {
    if (!text.startsWith(open)) continue
    const end = text.slice(0, MAX_FORMULA_CHARS).indexOf(close, open.length)
    return end > open.length && text.slice(open.length, end).trim() ? text.slice(0, end + close.length) : ""
  }
  return DOLLARS.exec(text)?.[0] ?? ""
}

export function createMathExtension(escape: (text: string) => string): MarkedExtension {
  const renderer = (token: Tokens.Generic) => `<var>${escape(String(token["text"]))}</var>`
  return {
    extensions: [
      {
        name: "formulaBlock",
        level: "block",
        start: (text) => /(?:^|\n)(?:\$\$|\\\[)/.exec(text)?.index,
        tokenizer: (text) => {
          const formula = /^(?:\$\$|\\\[)/.test(text) ? matchFormula(text) : ""
          const rest = /^[ \t]*(?:\n|$)/.exec(text.slice(formula.length))
          return formula && rest ? { type: "formulaBlock", raw: formula + rest[0], text: formula } : undefined
        },
        renderer: (token) => `<p>${renderer(token)}</p>`,
      },
      {
        name: "formula",
        level: "inline",
        start: (text) => /\$|\\[[(]/.exec(text)?.index,
        tokenizer: (text) => {
          const formula = matchFormula(text)
          return formula ? { type: "formula", raw: formula, text: formula } : undefined
        },
        renderer,
      },
    ],
  }
}
