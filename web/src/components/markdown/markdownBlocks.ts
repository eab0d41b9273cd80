// Markdown to safe HTML: no scripts, styles or forms, and nothing that the browser would load from another origin. The text
// comes from models and tools and is never trusted.
import createDOMPurify from "dompurify"
import { Marked, type Token, type Tokens } from "marked"
import { createMathExtension } from "./mathTokens"
import { findNumberColumns } from "./tableText"
import { isInlineImage } from "../urls"

/** A piece of HTML, rendered on demand: a block that did not change since the last render is not rendered again. */
export interface HtmlPiece {
  raw: string
  html: () => string
  /** Whether it is an item of a list of tasks, which has a box and no bullet. */
  task?: boolean
}

export type Block = ({ kind: "html" } & HtmlPiece) | { kind: "list"; raw: string; start: number | null; items: HtmlPiece[] } | { kind: "code"; raw: string; text: string; language: string } | { kind: "table"; raw: string; html: () => string; rows: string[][] }

const marked = new Marked({
  gfm: true,
  breaks: true,
  async: false,
  renderer: {
    // Classes are not let through; `type` is, and says that the item has no bullet beside its box.
    listitem(item) {
      return `<li${item.task ? ' type="none"' : ""}>${this.parser.parse(item.tokens)}</li>`
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    html: ({ text }) => (/^<br\s*\/?>$/i.test(text.trim()) ? "<br>" : escapeHtml(text)), // HTML in an answer is shown as text
  },
})
marked.use(createMathExtension(escapeHtml))
const purify = createDOMPurify(window)

purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName === "A") {
    node.setAttribute("target", "_blank")
    node.setAttribute("rel", "noopener noreferrer nofollow")
  } else if (node.nodeName === "IMG" && !isInlineImage(node.getAttribute("src") ?? "")) {
    const link = node.ownerDocument.createElement("a")
    link.textContent = node.getAttribute("alt") || node.getAttribute("src") || ""
    if (/^https?:/i.test(node.getAttribute("src") ?? "")) {
      link.setAttribute("href", node.getAttribute("src")!)
      link.setAttribute("target", "_blank")
      link.setAttribute("rel", "noopener noreferrer nofollow")
    }
    node.replaceWith(link)
  }
})

function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
}

export function sanitizeHtml(html: string): string {
  return purify.sanitize(html, {
    USE_PROFILES: { html: true },
    FORBID_TAGS: ["style", "form", "input", "button", "select", "textarea", "video", "audio", "picture", "source", "dialog"],
    FORBID_ATTR: ["style", "class", "id", "name", "srcset", "background", "ping"],
    ALLOW_DATA_ATTR: false,
  })
}

export function parseBlocks(text: string): Block[] {
  return marked.lexer(text).flatMap((token): Block[] => {
    if (token.type === "space") return []
    if (token.type === "code") return [{ kind: "code", raw: token.raw, text: String(token["text"]), language: String(token["lang"] ?? "").split(/\s/)[0] ?? "" }]
    if (token.type === "table") return [toTableBlock(token as Tokens.Table)]
    if (token.type === "list") return [toListBlock(token as Tokens.List)]
    return [{ kind: "html", raw: token.raw, html: () => marked.parser([token]) }]
  })
}

/** Return a table with the texts of its cells, from which columns of numbers are found and CSV is made. */
function toTableBlock(table: Tokens.Table): Block {
  const rows = [table.header, ...table.rows].map((row) => row.map((cell) => toPlainText(cell.tokens)))
  const numbers = findNumberColumns(rows.slice(1))
  // What the author aligned stays so; a column of numbers without an alignment goes to the right.
  const align = table.align.map((side, column) => side ?? (numbers[column] ? "right" : null))
  const withAlign = (cell: Tokens.TableCell, column: number) => ({ ...cell, align: align[column] ?? null })
  const aligned = { ...table, align, header: table.header.map(withAlign), rows: table.rows.map((row) => row.map(withAlign)) }
  return { kind: "table", raw: table.raw, rows, html: () => marked.parser([aligned]) }
}

function toPlainText(tokens: Token[]): string {
  return tokens.map((token) => ("tokens" in token && token.tokens ? toPlainText(token.tokens) : token.type === "br" ? "\n" : String("text" in token ? token.text : ""))).join("")
}

/** Split a list into its items, so that a long list that still grows renders only its last item again. */
function toListBlock(list: Tokens.List): Block {
  const items = list.items.map((item) => ({ raw: `${list.loose}${item.raw}`, html: () => marked.parser(item.tokens), task: item.task }))
  return { kind: "list", raw: list.raw, start: list.ordered ? Number(list.start || 1) : null, items }
}
