import { useState, type FormEvent, type KeyboardEvent, type ReactNode } from "react"
import { useTranslate } from "../locales"

interface EditMessageProps {
  text: string
  /** The images and files, which are sent again with the message. */
  attachments: ReactNode
  onSend: (text: string) => Promise<boolean>
  onClose: () => void
}

/** A message as a field, to send it once more with other words. */
export function EditMessage({ text, attachments, onSend, onClose }: EditMessageProps) {
  const t = useTranslate()
  const [edited, setEdited] = useState(text)
  const [busy, setBusy] = useState(false)
  const isEmpty = !edited.trim() && !attachments
  const submit = async (event: FormEvent | KeyboardEvent) => {
    event.preventDefault()
    if (isEmpty || busy) return
    setBusy(true)
    if (await onSend(edited.trim())) onClose()
    else setBusy(false)
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return
    if (event.key === "Escape") {
      event.preventDefault()
      onClose()
    } else if (event.key === "Enter" && !event.shiftKey) void submit(event)
  }
  return (
    <form className="edit-message" onSubmit={(event) => void submit(event)}>
      {attachments}
      <textarea aria-label={t("message.edit")} autoFocus rows={2} value={edited} onChange={(event) => setEdited(event.target.value)} onKeyDown={onKey} onFocus={(event) => event.target.setSelectionRange(text.length, text.length)} />
      <div>
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
