// The images and files that will be sent with the next message: chosen, pasted or dropped.
import { useRef, useState, type ClipboardEvent, type DragEvent } from "react"
import { useTranslate, type Translate } from "../locales"
import { useMe } from "../session/caller"
import type { Me } from "../wire/types"
import { readChosenFile } from "./readChosenFile"

const MAX_ATTACHMENTS = 8
const MAX_MIB = 5
const MIB = 1024 * 1024
const MAX_MEGAPIXELS = 40
/** The end of a longer name is sent, which says of what kind the file is. */
const MAX_NAME_CHARS = 200

export interface Attachment {
  id: number
  name: string
  bytes: number
  /** The bytes in base64. */
  data: string
  /** A data URL of an image that the browser can show; empty for everything else. */
  preview: string
}

let lastId = 0

/** The message may have attachments already, which count towards its limits. */
export function useAttachments(fail: (error: Error) => void, clearProblem: () => void, kept: { bytes: number }[] = []) {
  const t = useTranslate()
  const me = useMe()
  const [items, setItems] = useState<Attachment[]>([])
  /** The items as they are, also before they are drawn. */
  const current = useRef(items)
  const reading = useRef(new Set<Promise<boolean>>())
  const change = (changed: Attachment[]) => {
    current.current = changed
    setItems(changed)
  }
  const refuse = (problem: Error) => {
    fail(problem)
    return false
  }
  const add = async (files: File[]): Promise<boolean> => {
    if (kept.length + current.current.length + files.length > MAX_ATTACHMENTS) return refuse(new Error(t("attach.many", { n: MAX_ATTACHMENTS })))
    clearProblem()
    try {
      const added = await Promise.all(files.map((file) => readAttachment(file, me, t)))
      const bytes = [...kept, ...current.current, ...added].reduce((sum, item) => sum + item.bytes, 0)
      if (bytes > MAX_MIB * MIB) return refuse(new Error(t("attach.large", { size: MAX_MIB })))
      change([...current.current, ...added].slice(0, MAX_ATTACHMENTS - kept.length))
      return true
    } catch (error) {
      return refuse(error instanceof Error ? error : new Error(String(error)))
    }
  }
  const start = (files: File[]) => {
    const read = add(files)
    reading.current.add(read)
    void read.finally(() => reading.current.delete(read))
  }
  const take = (event: ClipboardEvent | DragEvent, transfer: DataTransfer | null) => {
    const files = [...(transfer?.files ?? [])]
    if (!files.length) return // text is pasted and dropped as usual
    event.preventDefault()
    start(files)
  }
  return {
    items,
    add: start,
    remove: (id: number) => change(current.current.filter((item) => item.id !== id)),
    /** Return the items once all files are read that are read now, or null if one of them cannot be sent, which was told. */
    settle: async () => ((await Promise.all(reading.current)).every(Boolean) ? current.current : null),
    /** Remove what was sent. What was added since stays. */
    drop: (sent: Attachment[]) => change(current.current.filter((item) => !sent.includes(item))),
    onPaste: (event: ClipboardEvent) => take(event, event.clipboardData),
    onDrop: (event: DragEvent) => take(event, event.dataTransfer),
  }
}

/** Return a file as an attachment. Raises what the user has to know of a file that cannot be sent. */
async function readAttachment(file: File, me: Me, t: Translate): Promise<Attachment> {
  const { name, kind, bytes } = await readChosenFile(file, me, t)
  if (bytes.length > MAX_MIB * MIB) throw new Error(t("attach.large", { size: MAX_MIB }))
  if (kind === "image") await checkImage(name, bytes, t)
  const data = toBase64(bytes)
  const preview = kind === "image" && /^image\/(?:png|jpeg|gif|webp)$/.test(file.type) ? `data:${file.type};base64,${data}` : ""
  return { id: ++lastId, name: name.slice(-MAX_NAME_CHARS), bytes: bytes.length, data, preview }
}

/** Raise what the user has to know of an image that the server would refuse. Its size is read without drawing it. */
async function checkImage(name: string, bytes: Uint8Array<ArrayBuffer>, t: Translate): Promise<void> {
  const image = new Image()
  const url = URL.createObjectURL(new Blob([bytes]))
  try {
    await new Promise((resolve, reject) => {
      image.onload = resolve
      image.onerror = () => reject(new Error(t("attach.damaged", { name })))
      image.src = url
    })
  } finally {
    URL.revokeObjectURL(url)
  }
  if (image.naturalWidth * image.naturalHeight > MAX_MEGAPIXELS * 1_000_000) throw new Error(t("attach.pixels", { name, n: MAX_MEGAPIXELS }))
}

function toBase64(bytes: Uint8Array): string {
  let binary = ""
  // In pieces: a call has a limit of arguments.
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000))
  return btoa(binary)
}
