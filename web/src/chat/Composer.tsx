import { ArrowUp, Square } from "lucide-react"
import { useEffect, useRef, useState, type KeyboardEvent } from "react"
import { useProblem } from "../wire/useProblem"
import { useTranslate } from "../locales"
import { AttachButton, AttachmentList } from "../attachments/AttachmentList"
import { useAttachments, type Attachment } from "../attachments/useAttachments"
import type { Spending } from "../state/spending"
import { BudgetNotice } from "./BudgetNotice"
import { OfflineNotice } from "./OfflineNotice"
import { useDraft } from "./useDraft"

interface ComposerProps {
  /** Whose draft is kept; empty for a new conversation. */
  conversation: string
  /** The model that was chosen for the conversation; empty if the server's default answers. */
  model: string
  /** What the conversation has used and cost so far; undefined for a new one. */
  spending?: Spending
  send: (text: string, attachments: Attachment[]) => Promise<void>
  /** Set while a run is active. */
  stop?: (() => void) | undefined
  stopping?: boolean
}

export function Composer({ conversation, model, spending, send, stop, stopping = false }: ComposerProps) {
  const t = useTranslate()
  const [text, setText] = useDraft(conversation)
  const [busy, setBusy] = useState(false)
  const [problem, fail, clear] = useProblem()
  const attached = useAttachments(fail, clear)
  const field = useRef<HTMLTextAreaElement>(null)
  useEffect(() => {
    // On a touch screen the focus would open the keyboard over the conversation.
    if (matchMedia("(hover: hover)").matches) field.current?.focus()
  }, [])
  const submit = async () => {
    const message = text.trim()
    if ((!message && !attached.items.length) || busy) return
    setBusy(true)
    clear()
    setText("") // at once, so that the next message can be written; restored if this one is not accepted
    try {
      await send(message, attached.items)
      attached.clear()
    } catch (error) {
      fail(error)
      setText(message)
    } finally {
      setBusy(false)
      field.current?.focus()
    }
  }
  const onKey = (event: KeyboardEvent) => {
    // Enter that ends the composition of a character, as in Chinese, does not send.
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return
    event.preventDefault()
    void submit()
  }
  return (
    <div className="composer">
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      <OfflineNotice model={model} />
      <BudgetNotice spending={spending} />
      <AttachmentList items={attached.items} remove={attached.remove} />
      <form
        className="composer-box"
        onPaste={attached.onPaste}
        onDragOver={(event) => event.preventDefault()}
        onDrop={attached.onDrop}
        onSubmit={(event) => {
          event.preventDefault()
          void submit()
        }}
      >
        <AttachButton add={attached.add} />
        <textarea ref={field} rows={1} aria-label={t("chat.write")} placeholder={t("chat.placeholder")} value={text} onChange={(event) => setText(event.target.value)} onKeyDown={onKey} />
        {stop && (
          <button type="button" className="round stop" aria-label={t(stopping ? "chat.stopping" : "chat.stop")} title={t("chat.stop")} disabled={stopping} onClick={stop}>
            <Square aria-hidden />
          </button>
        )}
        <button className="round send" aria-label={t("chat.send")} title={t("chat.send")} disabled={(!text.trim() && !attached.items.length) || busy}>
          <ArrowUp aria-hidden />
        </button>
      </form>
      <p className="hint">{t("chat.hint")}</p>
    </div>
  )
}
