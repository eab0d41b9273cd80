import { FileText } from "lucide-react"
import { memo } from "react"
import { isInline, isLink } from "../urls"
import type { UserMessage } from "../wire/types"
import { useSay } from "../locales"

export const SaidRow = memo(function SaidRow({ item, queued = false }: { item: UserMessage; queued?: boolean }) {
  const say = useSay()
  return (
    <div className="said" data-queued={queued || undefined}>
      <span className="unseen">{say("chat.you")}: </span>
      <div className="said-box">
        {item.parts.map((part, index) => {
          if (part.type === "text") return <p key={index}>{part.text}</p>
          if (part.type === "image" && isInline(part.url)) return <img key={index} src={part.url} alt="" />
          const name = part.type === "file" && part.name ? part.name : part.url.slice(0, 80)
          return isLink(part.url) ? (
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
      {queued && <span className="pill">{say("chat.waitsInLine")}</span>}
    </div>
  )
})
