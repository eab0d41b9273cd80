// Decides how to show the result of a call, from its content alone: tools return any JSON, without saying what it is. Pure.
import { isInlineImage, isWebLink } from "../components/urls"
import type { Part } from "../wire/types"

export interface Link {
  url: string
  title: string
  about: string
}

export type ResultDisplay =
  | { kind: "image"; url: string; about: string }
  | { kind: "table"; columns: string[]; rows: string[][]; more: number }
  | { kind: "links"; links: Link[] }
  | { kind: "text"; text: string }
  | { kind: "several"; parts: ResultDisplay[] }
  | { kind: "json"; value: unknown }

type JsonObject = Record<string, unknown>

const MAX_ROWS = 200
const MAX_COLUMNS = 12
/** An object of more fields does not count as the wrapper of a list. */
const MAX_WRAPPER_FIELDS = 4

/** Choose a display for the content of a result: the value if it is JSON, else the text. */
export function chooseDisplay(content: string): ResultDisplay {
  try {
    return displayValue(JSON.parse(content))
  } catch {
    return displayText(content)
  }
}

/** Return the display with the images and files that came with the result. */
export function addParts(display: ResultDisplay, parts: Part[]): ResultDisplay {
  const added = parts.flatMap((part): ResultDisplay[] => {
    if (part.type === "text") return [{ kind: "text", text: part.text }]
    if (part.type === "image") return [displayImage(part.url, {})]
    return isWebLink(part.url) ? [displayLink(part.url, { name: part.name })] : [{ kind: "text", text: part.name || part.url.slice(0, 80) }]
  })
  return added.length ? { kind: "several", parts: [display, ...added] } : display
}

function displayValue(value: unknown): ResultDisplay {
  if (typeof value === "string") return displayText(value)
  if (Array.isArray(value)) return displayList(value)
  if (!isObject(value)) return { kind: "text", text: String(value) }
  return displayBlock(value) ?? displayContent(value) ?? displayWrappedList(value) ?? { kind: "json", value }
}

/** Display a content block of MCP, or an object with an image of its own. Return null for any other object. */
function displayBlock(value: JsonObject): ResultDisplay | null {
  const { type, data, text, uri, url } = value
  const mime = value["mimeType"] ?? value["mime_type"]
  if (type === "image" && typeof data === "string" && typeof mime === "string") return displayImage(`data:${mime};base64,${data}`, value)
  if (type === "image" && typeof url === "string") return displayImage(url, value)
  if (type === "text" && typeof text === "string") return displayText(text)
  if (type === "resource_link" && typeof uri === "string") return displayLink(uri, value)
  if (typeof value["image"] === "string" && isInlineImage(value["image"])) return displayImage(value["image"], value)
  return null
}

/** Display the blocks of an MCP result, `{"content": [{"type": …}]}`. Return null for any other object. */
function displayContent(value: JsonObject): ResultDisplay | null {
  const content = value["content"]
  if (!Array.isArray(content) || !content.every((block) => isObject(block) && typeof block["type"] === "string")) return null
  return join(content.map(displayValue))
}

/** Display an object that wraps one list, `{"count": 2, "products": […]}`, as a table or links below the other fields. */
function displayWrappedList(value: JsonObject): ResultDisplay | null {
  const lists = Object.entries(value).filter(([, field]) => Array.isArray(field) && field.length > 0 && field.every(isObject))
  if (lists.length !== 1 || Object.keys(value).length > MAX_WRAPPER_FIELDS) return null
  const [name, list] = lists[0]!
  const display = displayList(list as unknown[])
  if (display.kind === "json") return null
  const { [name]: _, ...rest } = value
  return Object.keys(rest).length ? join([{ kind: "json", value: rest }, display]) : display
}

function displayImage(url: string, value: JsonObject): ResultDisplay {
  return isInlineImage(url) ? { kind: "image", url, about: toText(value["alt"] ?? value["title"]) } : displayLink(url, value)
}

function displayLink(url: string, value: JsonObject): ResultDisplay {
  if (!isWebLink(url)) return { kind: "text", text: url }
  return { kind: "links", links: [{ url, title: toText(value["title"] ?? value["name"]) || url, about: toText(value["description"]) }] }
}

function displayText(text: string): ResultDisplay {
  if (isInlineImage(text)) return { kind: "image", url: text, about: "" }
  if (isWebLink(text)) return { kind: "links", links: [{ url: text, title: text, about: "" }] }
  return { kind: "text", text }
}

function displayList(list: unknown[]): ResultDisplay {
  if (!list.length) return { kind: "json", value: list }
  const blocks = list.map((item) => (isObject(item) ? displayBlock(item) : null))
  if (blocks.every((block) => block !== null)) return join(blocks)
  if (list.every((item) => typeof item === "string" && isWebLink(item))) return { kind: "links", links: list.map((url) => ({ url: String(url), title: String(url), about: "" })) }
  if (list.every((item) => isObject(item) && isWebLink(toText(item["url"] ?? item["link"])))) return { kind: "links", links: (list as JsonObject[]).map(toLink) }
  if (list.every(isFlat)) return displayTable(list as JsonObject[])
  return { kind: "json", value: list }
}

/** Read a search result, whose fields every search tool names differently. */
function toLink(item: JsonObject): Link {
  const url = toText(item["url"] ?? item["link"])
  return { url, title: toText(item["title"] ?? item["name"]) || url, about: toText(item["snippet"] ?? item["description"] ?? item["content"]) }
}

function displayTable(list: JsonObject[]): ResultDisplay {
  const columns = [...new Set(list.slice(0, MAX_ROWS).flatMap((item) => Object.keys(item)))]
  if (columns.length > MAX_COLUMNS) return { kind: "json", value: list }
  const rows = list.slice(0, MAX_ROWS).map((item) => columns.map((column) => toText(item[column])))
  return { kind: "table", columns, rows, more: Math.max(0, list.length - MAX_ROWS) }
}

function join(parts: ResultDisplay[]): ResultDisplay {
  return parts.length === 1 ? parts[0]! : { kind: "several", parts }
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

function isFlat(value: unknown): boolean {
  return isObject(value) && Object.values(value).every((field) => typeof field !== "object" || field === null)
}

function toText(value: unknown): string {
  return value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value)
}
