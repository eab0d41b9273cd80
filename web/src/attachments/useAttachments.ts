// The images and files that will be sent with the next message: chosen, pasted or dropped.
import { useState, type ClipboardEvent, type DragEvent } from "react"
import { useTranslate } from "../locales"

const MAX_ATTACHMENTS = 8
const MAX_MIB = 5

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
  const [items, setItems] = useState<Attachment[]>([])
  const add = async (files: File[]) => {
    // Checked before reading: a large file would fill the memory. The server checks again.
    if (kept.length + items.length + files.length > MAX_ATTACHMENTS) return fail(new Error(t("attach.many", { n: MAX_ATTACHMENTS })))
    const bytes = [...[...kept, ...items].map((item) => item.bytes), ...files.map((file) => file.size)].reduce((sum, size) => sum + size, 0)
    if (bytes > MAX_MIB * 1024 * 1024) return fail(new Error(t("attach.large", { size: MAX_MIB })))
    clearProblem()
    const added = await Promise.all(files.map((file) => readFile(file, t("attach.pasted"))))
    setItems((before) => [...before, ...added].slice(0, MAX_ATTACHMENTS - kept.length))
  }
  const take = (event: ClipboardEvent | DragEvent, transfer: DataTransfer | null) => {
    const files = [...(transfer?.files ?? [])]
    if (!files.length) return // text is pasted and dropped as usual
    event.preventDefault()
    void add(files)
  }
  return {
    items,
    add: (files: File[]) => void add(files),
    remove: (id: number) => setItems((before) => before.filter((item) => item.id !== id)),
    clear: () => setItems([]),
    onPaste: (event: ClipboardEvent) => take(event, event.clipboardData),
    onDrop: (event: DragEvent) => take(event, event.dataTransfer),
  }
}

async function readFile(file: File, unnamed: string): Promise<Attachment> {
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(String(reader.result))
    reader.onerror = () => reject(reader.error ?? new Error("the file cannot be read"))
    reader.readAsDataURL(file)
  })
  const preview = /^image\/(?:png|jpeg|gif|webp)$/.test(file.type) ? url : ""
  return { id: ++lastId, name: file.name || unnamed, bytes: file.size, data: url.slice(url.indexOf(",") + 1), preview }
}
