import { FileText, Paperclip, X } from "lucide-react"
import { useRef } from "react"
import { useTranslate } from "../locales"
import type { Attachment } from "./useAttachments"

/** The attachments of the message that is being written, with previews of images. */
export function AttachmentList({ items, remove }: { items: Attachment[]; remove: (id: number) => void }) {
  const t = useTranslate()
  if (!items.length) return null
  return (
    <ul className="attachments" aria-label={t("attach.list")}>
      {items.map(({ id, name, preview }) => (
        <li key={id}>
          {preview ? <img src={preview} alt="" /> : <FileText aria-hidden />}
          <span title={name}>{name}</span>
          <button type="button" className="icon" aria-label={t("attach.remove", { name })} onClick={() => remove(id)}>
            <X aria-hidden />
          </button>
        </li>
      ))}
    </ul>
  )
}

export function AttachButton({ add }: { add: (files: File[]) => void }) {
  const t = useTranslate()
  const input = useRef<HTMLInputElement>(null)
  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        onChange={(event) => {
          add([...(event.target.files ?? [])])
          event.target.value = "" // so that the same file can be chosen again
        }}
      />
      <button type="button" className="round" aria-label={t("attach.add")} title={t("attach.add")} onClick={() => input.current?.click()}>
        <Paperclip aria-hidden />
      </button>
    </>
  )
}
