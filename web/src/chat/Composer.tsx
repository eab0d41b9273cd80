import { ArrowUp, Square } from "lucide-react"
import { useEffect, useRef, useState, type KeyboardEvent, type ReactNode } from "react"
import { ProblemText } from "../components/ProblemText"
import { useProblem } from "../wire/useProblem"
import { useTranslate } from "../locales"
import { AttachButton, AttachmentList } from "../attachments/AttachmentList"
import { useAttachments, type Attachment } from "../attachments/useAttachments"
import { useCommands } from "../state/commands"
import type { Spending } from "../state/spending"
import { BudgetNotice } from "./BudgetNotice"
import { OfflineNotice } from "./OfflineNotice"
import { useDraft } from "./useDraft"

/** A text to write into the composer. Each object is one wish: the same text can be wished for again. */
export interface Insertion {
  text: string
}

interface ComposerProps {
  /** Whose draft is kept; empty for a new conversation. */
  conversation: string
  /** The model that was chosen for the conversation; empty if the server's default answers. */
  model: string
  /** Whether an answer has said already that no language model is connected. */
  introduced?: boolean
  insertion?: Insertion | null
  /** What the conversation has used and cost so far; undefined for a new one. */
  spending?: Spending
  send: (text: string, attachments: Attachment[]) => Promise<void>
  /** Set while a run is active. */
  stop?: (() => void) | undefined
  stopping?: boolean
  /** What is chosen for the next messages, such as the model. */
  controls: ReactNode
  /** What is set for the conversation, shown above the field. */
  chips: ReactNode
}

export function Composer({ conversation, model, introduced = false, insertion = null, spending, send, stop, stopping = false, controls, chips }: ComposerProps) {
  const t = useTranslate()
  const [text, setText] = useDraft(conversation)
  const typed = useRef(text)
  typed.current = text
  const [busy, setBusy] = useState(false)
  const [problem, fail, clear] = useProblem()
  const attached = useAttachments(fail, clear)
  const field = useRef<HTMLTextAreaElement>(null)
  useEffect(() => {
    // On a touch screen the focus would open the keyboard over the conversation.
    if (matchMedia("(hover: hover)").matches) field.current?.focus()
  }, [])
  const inserted = useRef("")
  useEffect(() => {
    if (!insertion) return
    // Another example takes the place of the one before; what the user wrote stays.
    setText(text.trim() && text !== inserted.current ? `${text}\n${insertion.text}` : insertion.text)
    inserted.current = insertion.text
    field.current?.focus()
  }, [insertion])
  useCommands([{ id: "write", label: t("chat.write"), run: () => field.current?.focus(), keys: { key: "/" } }])
  /** Put a message back that was not accepted, before what has been typed since. */
  const restore = (message: string) => setText(typed.current ? `${message}\n${typed.current}` : message)
  const submit = async () => {
    const message = text.trim()
    if ((!message && !attached.items.length) || busy) return
    setBusy(true)
    clear()
    setText("") // at once, so that the next message can be written; restored if this one is not accepted
    try {
      const files = await attached.settle()
      if (!files) return restore(message)
      await send(message, files)
      attached.drop(files)
    } catch (error) {
      fail(error)
      restore(message)
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
      <ProblemText text={problem} />
      {!introduced && <OfflineNotice model={model} />}
      <BudgetNotice spending={spending} />
      {chips}
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
        <textarea ref={field} rows={1} aria-label={t("chat.write")} placeholder={t("chat.placeholder")} value={text} onChange={(event) => setText(event.target.value)} onKeyDown={onKey} />
        <div className="composer-row">
          <AttachButton add={attached.add} />
          {controls}
          <span className="grow" />
          {stop && (
            <button type="button" className="round stop" aria-label={t(stopping ? "chat.stopping" : "chat.stop")} title={t("chat.stop")} disabled={stopping} onClick={stop}>
              <Square aria-hidden />
            </button>
          )}
          <button className="round send" aria-label={t("chat.send")} title={t("chat.send")} disabled={(!text.trim() && !attached.items.length) || busy}>
            <ArrowUp aria-hidden />
          </button>
        </div>
      </form>
      <p className="hint">{t("chat.hint")}</p>
    </div>
  )
}
