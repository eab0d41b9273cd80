import { FileText, Pencil } from "lucide-react"
import { memo, useRef, useState, type ReactNode } from "react"
import type { RowVersions } from "../../state/branches"
import { useConversation } from "../../state/conversationContext"
import { isInlineImage, isWebLink } from "../../components/urls"
import type { Part, UserMessage } from "../../wire/types"
import { useTranslate } from "../../locales"
import { EditMessage } from "./EditMessage"
import { MessageBar } from "./MessageBar"

interface UserMessageRowProps {
  item: UserMessage
  queued?: boolean
  /** The item before the message, after which an edited one is sent. */
  after?: string
  versions?: RowVersions | undefined
}

export const UserMessageRow = memo(function UserMessageRow({ item, queued = false, after = "", versions }: UserMessageRowProps) {
  const t = useTranslate()
  const { actions } = useConversation()
  const [editing, setEditing] = useState(false)
  const editButton = useRef<HTMLButtonElement>(null)
  const text = item.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n")
  const attached = item.parts.filter((part) => part.type !== "text")
  const close = () => {
    setEditing(false)
    setTimeout(() => editButton.current?.focus()) // once the button is there again
  }
  if (editing && actions) {
    return <EditMessage text={text} attached={attached} onSend={(edited, leftOut, added) => actions.resend(after, edited, { added, keptFrom: attached.length ? item.id : "", leftOut })} onClose={close} />
  }
  return (
    <div className="user-message" data-queued={queued || undefined}>
      <span className="visually-hidden">{t("chat.you")}: </span>
      <div className="user-message-box">
        {item.parts.map(showPart)}
      </div>
      {queued ? (
        <span className="pill">{t("chat.queued")}</span>
      ) : (
        <MessageBar text={text} copyLabel={t("message.copy")} message={item.id} versions={versions}>
          {actions && (
            <button ref={editButton} className="quiet" aria-label={t("message.edit")} title={t("message.edit")} onClick={() => setEditing(true)}>
              <Pencil aria-hidden />
            </button>
          )}
        </MessageBar>
      )}
    </div>
  )
})

function showPart(part: Part, index: number): ReactNode {
  if (part.type === "text") return <p key={index}>{part.text}</p>
  if (part.type === "image" && isInlineImage(part.url)) return <img key={index} src={part.url} alt="" />
  const name = part.type === "file" && part.name ? part.name : part.url.slice(0, 80)
  return isWebLink(part.url) ? (
    <a key={index} href={part.url} target="_blank" rel="noopener noreferrer">
      <FileText aria-hidden /> {name}
    </a>
  ) : (
    <p key={index}>
      <FileText aria-hidden /> {name}
    </p>
  )
}
