// The row of small buttons below a message. It is always there for touch and keyboard, and appears under the pointer.
import type { ReactNode } from "react"
import { ChevronLeft, ChevronRight, Copy as CopyIcon, MoreHorizontal, RefreshCw, Trash2 } from "lucide-react"
import { useRef, useState } from "react"
import { CopyButton, copyText } from "../../components/CopyButton"
import { PopupMenu } from "../../components/PopupMenu"
import { Feedback } from "./Feedback"
import { ModelDialog } from "../settings/ModelPicker"
import { Dialog } from "../../components/Dialog"
import type { RowVersions } from "../../state/branches"
import { useConversation } from "../../state/conversationContext"
import { useTranslate } from "../../locales"

interface MessageBarProps {
  /** The message as it is copied: its Markdown source. */
  text: string
  copyLabel: string
  /** The id under which the server knows the message; empty if it cannot be deleted. */
  message: string
  versions: RowVersions | undefined
  /** The user's message to answer again; empty if there is none. */
  retryOf?: string
  /** The run of an answer, which the owner may rate; empty for other messages. */
  run?: string
  children?: ReactNode
}

export function MessageBar({ text, copyLabel, message, versions, retryOf = "", run = "", children }: MessageBarProps) {
  const t = useTranslate()
  const { actions } = useConversation()
  return (
    <div className="message-bar" data-pinned={versions ? true : undefined}>
      {versions && <VersionSwitch versions={versions} />}
      {text && <CopyButton text={text} label={copyLabel} iconOnly />}
      {actions && retryOf && (
        <button className="quiet" aria-label={t("message.retry")} title={t("message.retry")} onClick={() => actions.retry(retryOf)}>
          <RefreshCw aria-hidden />
        </button>
      )}
      {children}
      {run && <Feedback run={run} />}
      {retryOf && <AnswerMenu retryOf={retryOf} hasText={text !== ""} />}
      {actions && message && <DeleteButton onDelete={() => actions.remove(message)} />}
    </div>
  )
}

/** What is done with an answer less often: copy it without the signs of Markdown, or have another model answer. */
function AnswerMenu({ retryOf, hasText }: { retryOf: string; hasText: boolean }) {
  const t = useTranslate()
  const { actions } = useConversation()
  const [choosing, setChoosing] = useState(false)
  const place = useRef<HTMLSpanElement>(null)
  const copy = () => {
    const article = place.current?.closest("article")
    if (!article) return
    article.dataset["copying"] = "" // hides the buttons and heads of blocks, which are no part of the text
    const texts = [...article.querySelectorAll<HTMLElement>(".markdown")].map((element) => element.innerText)
    delete article.dataset["copying"]
    void copyText(texts.join("\n\n"))
  }
  if (!hasText && !actions) return null
  return (
    <span ref={place}>
      <PopupMenu label={t("message.more")} icon={<MoreHorizontal aria-hidden />}>
        {hasText && (
          <button onClick={copy}>
            <CopyIcon aria-hidden /> {t("message.copyText")}
          </button>
        )}
        {actions && (
          <button onClick={() => setChoosing(true)}>
            <RefreshCw aria-hidden /> {t("message.retryWith")}
          </button>
        )}
      </PopupMenu>
      {choosing && actions && <ModelDialog model="" onChoose={async (model) => actions.retry(retryOf, model)} onClose={() => setChoosing(false)} />}
    </span>
  )
}

/** ‹ 2/3 ›: which version of a message is shown, with buttons for the one before and the one after. */
function VersionSwitch({ versions: { heads, current } }: { versions: RowVersions }) {
  const t = useTranslate()
  const { actions } = useConversation()
  const label = t("message.version", { n: current + 1, count: heads.length })
  const show = (index: number) => actions?.show(heads[index]!)
  return (
    <span className="versions" role="group" aria-label={label}>
      <button className="quiet" aria-label={t("message.earlier")} title={t("message.earlier")} disabled={!actions || current === 0} onClick={() => show(current - 1)}>
        <ChevronLeft aria-hidden />
      </button>
      <span aria-hidden>
        {current + 1}/{heads.length}
      </span>
      <button className="quiet" aria-label={t("message.later")} title={t("message.later")} disabled={!actions || current === heads.length - 1} onClick={() => show(current + 1)}>
        <ChevronRight aria-hidden />
      </button>
    </span>
  )
}

function DeleteButton({ onDelete }: { onDelete: () => void }) {
  const t = useTranslate()
  const [asking, setAsking] = useState(false)
  return (
    <>
      <button className="quiet" aria-label={t("message.delete")} title={t("message.delete")} onClick={() => setAsking(true)}>
        <Trash2 aria-hidden />
      </button>
      {asking && (
        <Dialog title={t("message.delete")} onClose={() => setAsking(false)}>
          <p>{t("message.deleteConfirm")}</p>
          <footer>
            <button onClick={() => setAsking(false)}>{t("common.cancel")}</button>
            <button
              className="danger"
              onClick={() => {
                setAsking(false)
                onDelete()
              }}
            >
              {t("list.delete")}
            </button>
          </footer>
        </Dialog>
      )}
    </>
  )
}
