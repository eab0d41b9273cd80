// Decides how a result is drawn, from its content alone. Pure.
import type { Part } from "../wire/types"
import { isInline, isLink } from "../urls"

export type Drawing =
  | { kind: "image"; url: string; about: string }
  | { kind: "table"; columns: string[]; rows: string[][]; more: number }
  | { kind: "links"; links: { url: string; title: string; about: string }[] }
  | { kind: "text"; text: string }
  | { kind: "several"; parts: Drawing[] }
  | { kind: "json"; value: unknown }

const MOST_ROWS = 200
const MOST_COLUMNS = 12

export function drawingOf(content: string): Drawing {
  try {
    return drawn(JSON.parse(content))
  } catch {
    return drawnText(content)
  }
}

/** A drawing with the images and files that came along. */
export function withParts(drawing: Drawing, parts: Part[]): Drawing {
  const drawn = parts.flatMap((part): Drawing[] => {
    if (part.type === "text") return [{ kind: "text", text: part.text }]
    if (part.type === "image") return [picture(part.url, {})]
    return isLink(part.url) ? [linkTo(part.url, { name: part.name })] : [{ kind: "text", text: part.name || part.url.slice(0, 80) }]
  })
  return drawn.length ? { kind: "several", parts: [drawing, ...drawn] } : drawing
}

type Plain = Record<string, unknown>

function drawn(value: unknown): Drawing {
  if (typeof value === "string") return drawnText(value)
  if (Array.isArray(value)) return drawnList(value)
  if (!isObject(value)) return { kind: "text", text: String(value) }
  const block = drawnBlock(value)
  if (block) return block
  if (Array.isArray(value["content"]) && value["content"].every((one) => isObject(one) && typeof one["type"] === "string")) return several(value["content"].map(drawn))
  const lists = Object.entries(value).filter(([, one]) => Array.isArray(one) && one.length > 0 && one.every(isObject))
  if (lists.length === 1 && Object.keys(value).length <= 4) {
    const [name, list] = lists[0]!
    const { [name]: _, ...rest } = value
    const table = drawnList(list as unknown[])
    if (table.kind !== "json") return Object.keys(rest).length ? several([{ kind: "json", value: rest }, table]) : table
  }
  return { kind: "json", value }
}

/** A content block as MCP has them, or something with an address that looks like one. */
function drawnBlock(value: Plain): Drawing | null {
  const { type, data, text, uri, url } = value
  const mime = value["mimeType"] ?? value["mime_type"]
  if (type === "image" && typeof data === "string" && typeof mime === "string") return picture(`data:${mime};base64,${data}`, value)
  if (type === "image" && typeof url === "string") return picture(url, value)
  if (type === "text" && typeof text === "string") return drawnText(text)
  if (type === "resource_link" && typeof uri === "string") return linkTo(uri, value)
  if (typeof value["image"] === "string" && isInline(value["image"])) return picture(value["image"], value)
  return null
}

function picture(url: string, value: Plain): Drawing {
  return isInline(url) ? { kind: "image", url, about: words(value["alt"] ?? value["title"]) } : linkTo(url, value)
}

function linkTo(url: string, value: Plain): Drawing {
  if (!isLink(url)) return { kind: "text", text: url }
  return { kind: "links", links: [{ url, title: words(value["title"] ?? value["name"]) || url, about: words(value["description"]) }] }
}

function drawnText(text: string): Drawing {
  if (isInline(text)) return { kind: "image", url: text, about: "" }
  if (isLink(text)) return { kind: "links", links: [{ url: text, title: text, about: "" }] }
  return { kind: "text", text }
}

function drawnList(list: unknown[]): Drawing {
  if (!list.length) return { kind: "json", value: list }
  const parts = list.map((one) => (isObject(one) ? drawnBlock(one) : null))
  if (parts.every((one) => one !== null)) return several(parts)
  if (list.every((one) => typeof one === "string" && isLink(one))) return { kind: "links", links: list.map((url) => ({ url: String(url), title: String(url), about: "" })) }
  if (list.every((one) => isObject(one) && isLink(words(one["url"] ?? one["link"])))) return { kind: "links", links: (list as Plain[]).map(found) }
  if (list.every(isFlat)) return table(list as Plain[])
  return { kind: "json", value: list }
}

function found(one: Plain): { url: string; title: string; about: string } {
  const url = words(one["url"] ?? one["link"])
  return { url, title: words(one["title"] ?? one["name"]) || url, about: words(one["snippet"] ?? one["description"] ?? one["content"]) }
}

function table(list: Plain[]): Drawing {
  const columns = [...new Set(list.slice(0, MOST_ROWS).flatMap((one) => Object.keys(one)))]
  if (columns.length > MOST_COLUMNS) return { kind: "json", value: list }
  const rows = list.slice(0, MOST_ROWS).map((one) => columns.map((column) => words(one[column])))
  return { kind: "table", columns, rows, more: Math.max(0, list.length - MOST_ROWS) }
}

function several(parts: Drawing[]): Drawing {
  return parts.length === 1 ? parts[0]! : { kind: "several", parts }
}

function isObject(value: unknown): value is Plain {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

function isFlat(value: unknown): boolean {
  return isObject(value) && Object.values(value).every((one) => typeof one !== "object" || one === null)
}

function words(value: unknown): string {
  return value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value)
}
