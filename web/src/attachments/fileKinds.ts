// What a chosen file is, by its own bytes: its name and the type that the browser reports may be wrong. Pure.

export type FileKind = "image" | "pdf" | "document" | "text" | "empty" | "encoding" | "unreadable"

const SIGNATURES: [FileKind, number[]][] = [
  ["image", [0x89, 0x50, 0x4e, 0x47]],
  ["image", [0xff, 0xd8, 0xff]],
  ["image", [0x47, 0x49, 0x46, 0x38]],
  ["pdf", [0x25, 0x50, 0x44, 0x46, 0x2d]],
  ["document", [0x50, 0x4b, 0x03, 0x04]], // an archive, as those of Word, Excel and PowerPoint are
]
const RIFF = [0x52, 0x49, 0x46, 0x46]
const WEBP = [0x57, 0x45, 0x42, 0x50]

/**
 * Return what a file is. A document has to be converted to text, one in another encoding than UTF-8 has to be saved anew, and one
 * that is unreadable is for no model.
 */
export function detectKind(name: string, bytes: Uint8Array): FileKind {
  if (!bytes.length) return "empty"
  const begins = (signature: number[], at = 0) => signature.every((byte, index) => bytes[at + index] === byte)
  const found = SIGNATURES.find(([, signature]) => begins(signature))
  if (found) return found[0]
  if (begins(RIFF) && begins(WEBP, 8)) return "image"
  if (!isText(bytes)) return /\.(csv|tsv|txt|md)$/i.test(name) ? "encoding" : "unreadable"
  return /\.html?$/i.test(name) ? "document" : "text"
}

function isText(bytes: Uint8Array): boolean {
  try {
    return !new TextDecoder("utf-8", { fatal: true }).decode(bytes).includes("\0")
  } catch {
    return false
  }
}
