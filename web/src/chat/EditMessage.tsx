import { useState, type FormEvent, type KeyboardEvent } from "react"
import { useTranslate } from "../locales"

/** A message as a field, to send it once more with other words. */
export function EditMessage({ text, onSend, onClose }: { text: string; onSend: (text: string) => Promise<boolean>; onClose: () => void }) {
  const t = useTranslate()
  const [edited, setEdited] = useState(text)
  const [busy, setBusy] = useState(false)
  const submit = async (event: FormEvent | KeyboardEvent) => {
    event.preventDefault()
    if (!edited.trim() || busy) return
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
      <textarea aria-label={t("message.edit")} autoFocus rows={2} value={edited} onChange={(event) => setEdited(event.target.value)} onKeyDown={onKey} onFocus={(event) => event.target.setSelectionRange(text.length, text.length)} />
      <div>
        <button type="button" className="quiet" onClick={onClose}>
          {t("common.cancel")}
        </button>
        <button className="primary" disabled={!edited.trim() || busy}>
          {t("message.resend")}
        </button>
      </div>
    </form>
  )
}
