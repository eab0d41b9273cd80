import { useEffect, useRef, useState, type FormEvent, type KeyboardEvent } from "react"
import { AttachButton, AttachmentList } from "../../attachments/AttachmentList"
import { useAttachments, type Attachment } from "../../attachments/useAttachments"
import { useTranslate } from "../../locales"
import { isInlineImage } from "../../components/urls"
import { ProblemText } from "../../components/ProblemText"
import { useProblem } from "../../wire/useProblem"
import type { FilePart, ImagePart } from "../../wire/types"

interface EditMessageProps {
  text: string
  /** The images and files of the message. */
  attached: (ImagePart | FilePart)[]
  /** Called with the positions of those that are left out, and with new ones. */
  onSend: (text: string, leftOut: number[], added: Attachment[]) => Promise<boolean>
  onClose: () => void
}

/** A message as a field, to send it once more with other words and files. */
export function EditMessage({ text, attached, onSend, onClose }: EditMessageProps) {
  const t = useTranslate()
  const [edited, setEdited] = useState(text)
  const [busy, setBusy] = useState(false)
  const [leftOut, setLeftOut] = useState<number[]>([])
  const [problem, fail, clear] = useProblem()
  const kept = attached.map((part, index) => toAttachment(part, index, t(part.type === "image" ? "attach.pasted" : "attach.untitled"))).filter((_, index) => !leftOut.includes(index))
  const added = useAttachments(fail, clear, kept)
  const field = useRef<HTMLTextAreaElement>(null)
  useEffect(() => {
    const end = field.current!.value.length
    field.current!.focus()
    field.current!.setSelectionRange(end, end)
  }, [])
  const isEmpty = !edited.trim() && !kept.length && !added.items.length
  const submit = async (event: FormEvent | KeyboardEvent) => {
    event.preventDefault()
    if (isEmpty || busy) return
    setBusy(true)
    const files = await added.settle()
    if (files && (await onSend(edited.trim(), leftOut, files))) onClose()
    else setBusy(false)
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return
    if (event.key === "Escape") {
      event.preventDefault()
      onClose()
    } else if (event.key === "Enter" && !event.shiftKey) void submit(event)
  }
  // Attachments of the message have their positions as ids, below those of new ones.
  const remove = (id: number) => (id <= 0 ? setLeftOut([...leftOut, -id]) : added.remove(id))
  return (
    <form className="edit-message" onSubmit={(event) => void submit(event)} onPaste={added.onPaste} onDragOver={(event) => event.preventDefault()} onDrop={added.onDrop}>
      <ProblemText text={problem} />
      <AttachmentList items={[...kept, ...added.items]} remove={remove} />
      <textarea aria-label={t("message.edit")} ref={field} rows={2} value={edited} onChange={(event) => setEdited(event.target.value)} onKeyDown={onKey} />
      <div>
        <AttachButton add={added.add} />
        <span className="grow" />
        <button type="button" className="quiet" onClick={onClose}>
          {t("common.cancel")}
        </button>
        <button className="primary" disabled={isEmpty || busy}>
          {t("message.resend")}
        </button>
      </div>
    </form>
  )
}

/** Return a part of the message as an attachment in the list. Its data stays with the server. */
function toAttachment(part: ImagePart | FilePart, index: number, unnamed: string): Attachment {
  const isInline = part.url.startsWith("data:")
  const name = part.type === "file" && part.name ? part.name : isInline ? `${unnamed} ${index + 1}` : part.url
  // In base64 four letters stand for three bytes.
  return { id: -index, name, bytes: isInline ? Math.floor(part.url.length * 0.75) : 0, data: "", preview: isInlineImage(part.url) ? part.url : "" }
}
