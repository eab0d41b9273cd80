// Markdown to clean HTML: no script, no style, no form, and nothing that would be loaded from elsewhere.
import createDOMPurify from "dompurify"
import { Marked, type Token, type Tokens } from "marked"
import { isInline } from "../urls"

export interface Piece {
  raw: string
  html: () => string
}

export type Block = ({ kind: "html" } & Piece) | { kind: "list"; raw: string; start: number | null; items: Piece[] } | { kind: "code"; raw: string; text: string; language: string }

const marked = new Marked({
  gfm: true,
  breaks: true,
  async: false,
  renderer: {
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    html: ({ text }) => (/^<br\s*\/?>$/i.test(text.trim()) ? "<br>" : escaped(text)), // HTML is shown, not obeyed
  },
})
const purify = createDOMPurify(window)

purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName === "A") {
    node.setAttribute("target", "_blank")
    node.setAttribute("rel", "noopener noreferrer nofollow")
  } else if (node.nodeName === "IMG" && !isInline(node.getAttribute("src") ?? "")) {
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

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (one) => `&#${one.charCodeAt(0)};`)
}

export function clean(html: string): string {
  return purify.sanitize(html, {
    USE_PROFILES: { html: true },
    FORBID_TAGS: ["style", "form", "input", "button", "select", "textarea", "video", "audio", "picture", "source", "dialog"],
    FORBID_ATTR: ["style", "class", "id", "name", "srcset", "background", "ping"],
    ALLOW_DATA_ATTR: false,
  })
}

export function blocks(text: string): Block[] {
  return marked.lexer(text).flatMap((token): Block[] => {
    if (token.type === "space") return []
    if (token.type === "code") return [{ kind: "code", raw: token.raw, text: String(token["text"]), language: String(token["lang"] ?? "").split(/\s/)[0] ?? "" }]
    if (token.type === "list") return [listOf(token as Tokens.List)]
    return [{ kind: "html", raw: token.raw, html: () => marked.parser([token]) }]
  })
}

/** A list item by item: a long one that still grows is drawn anew only where it grows. */
function listOf(list: Tokens.List): Block {
  const items = list.items.map((item) => ({ raw: `${list.loose}${item.raw}`, html: () => marked.parser(inner(item)) }))
  return { kind: "list", raw: list.raw, start: list.ordered ? Number(list.start || 1) : null, items }
}

function inner(item: Tokens.ListItem): Token[] {
  if (!item.task) return item.tokens
  const box: Tokens.Text = { type: "text", raw: "", text: item.checked ? "☑ " : "☐ " }
  return [box, ...item.tokens.filter((token) => token.type !== "checkbox")]
}
