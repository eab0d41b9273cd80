// Reads a file that somebody chose, and says in their language why it cannot be used.
import type { MessageKey, Translate } from "../locales"
import { HttpError, describeError, request } from "../wire/http"
import type { FileText, Me } from "../wire/types"
import { detectKind } from "./fileKinds"

/** Why the server does not read a document, by the reason that it names. */
const REFUSALS: Record<string, MessageKey> = {
  damaged: "attach.why.damaged",
  archive: "attach.why.archive",
  expanded: "attach.why.expanded",
  pages: "attach.why.pages",
  cost: "attach.why.cost",
  text: "attach.why.text",
}

export interface ChosenFile {
  name: string
  kind: "image" | "pdf" | "text"
  bytes: Uint8Array<ArrayBuffer>
}

/** Return a file as it is, or a document as its text. Raises what the user has to know of a file that cannot be read. */
export async function readChosenFile(file: File, me: Me, t: Translate): Promise<ChosenFile> {
  const name = file.name || t("attach.pasted")
  // Checked before reading: a large file would fill the memory. The server checks again.
  if (file.size > me.max_file_bytes) throw new Error(t("attach.tooLarge", { name, size: Math.floor(me.max_file_bytes / 1_000_000) }))
  const bytes = new Uint8Array(await file.arrayBuffer())
  const kind = detectKind(name, bytes)
  if (kind === "empty") throw new Error(t("attach.empty", { name }))
  if (kind === "encoding") throw new Error(t("attach.encoding", { name }))
  if (kind === "unreadable") throw new Error(t("attach.unreadable", { name }))
  return kind === "document" ? { name: `${name}.md`, kind: "text", bytes: await convertDocument(name, bytes, me, t) } : { name, kind, bytes }
}

/** Return the text of a document, as the server reads it. */
async function convertDocument(name: string, bytes: Uint8Array<ArrayBuffer>, me: Me, t: Translate): Promise<Uint8Array<ArrayBuffer>> {
  if (!me.reads_documents) throw new Error(t("attach.noDocuments", { name }))
  try {
    const response = await request("POST", `files/text?name=${encodeURIComponent(name)}`, undefined, { headers: { "content-type": "application/octet-stream" } }, bytes)
    const { text } = (await response.json()) as FileText
    return new TextEncoder().encode(text)
  } catch (error) {
    throw new Error(t("attach.notConverted", { name, why: explainRefusal(error, t) }))
  }
}

function explainRefusal(error: unknown, t: Translate): string {
  const key = error instanceof HttpError && REFUSALS[String(error.body.details["reason"])]
  return key ? t(key) : describeError(error)
}
