import { FileText } from "lucide-react"
import { memo } from "react"
import { isInlineImage, isWebLink } from "../urls"
import type { UserMessage } from "../wire/types"
import { useTranslate } from "../locales"

export const UserMessageRow = memo(function UserMessageRow({ item, queued = false }: { item: UserMessage; queued?: boolean }) {
  const t = useTranslate()
  return (
    <div className="user-message" data-queued={queued || undefined}>
      <span className="visually-hidden">{t("chat.you")}: </span>
      <div className="user-message-box">
        {item.parts.map((part, index) => {
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
        })}
      </div>
      {queued && <span className="pill">{t("chat.queued")}</span>}
    </div>
  )
})
