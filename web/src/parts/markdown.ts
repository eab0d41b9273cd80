// Markdown to clean HTML: no script, no style, no form, and nothing that would be loaded from elsewhere.
import createDOMPurify from "dompurify"
import { Marked, type Token, type TokensList } from "marked"
import { isInline } from "./addresses"

export type Block = { kind: "html"; raw: string; html: () => string } | { kind: "code"; raw: string; text: string; language: string }

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
  const tokens: TokensList = marked.lexer(text)
  return tokens.flatMap((token): Block[] => {
    if (token.type === "space") return []
    if (token.type === "code") return [{ kind: "code", raw: token.raw, text: String(token["text"]), language: String(token["lang"] ?? "").split(/\s/)[0] ?? "" }]
    return [{ kind: "html", raw: token.raw, html: () => marked.parser(one(token, tokens)) }]
  })
}

function one(token: Token, all: TokensList): TokensList {
  return Object.assign([token], { links: all.links })
}
