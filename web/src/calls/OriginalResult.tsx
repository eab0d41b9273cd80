// A line about secrets that were replaced in a result; administrators may read the result as it was.
import { Eye } from "lucide-react"
import { useState } from "react"
import { ProblemText } from "../components/ProblemText"
import { isAdmin, useMe } from "../session/caller"
import { useTranslate } from "../locales"
import { useConversation } from "../state/conversationContext"
import { useToolName } from "../state/tools"
import { requestJson } from "../wire/http"
import type { OriginalResult as Original, Result } from "../wire/types"
import { useProblem } from "../wire/useProblem"
import { ResultViewer } from "./LargeResult"

export function OriginalResult({ result }: { result: Result }) {
  const t = useTranslate()
  const me = useMe()
  const name = useToolName(result.tool)
  const { conversation } = useConversation()
  const [content, setContent] = useState<string | null>(null)
  const [problem, fail, clear] = useProblem()
  const open = () => {
    clear()
    const path = `conversations/${encodeURIComponent(conversation)}/calls/${encodeURIComponent(result.call_id)}/original`
    requestJson<Original>("GET", path).then((original) => setContent(original.content), fail)
  }
  return (
    <>
      <p className="facts">
        <span>{t("call.redacted", { names: result.redacted?.join(", ") ?? "" })}</span>
        {isAdmin(me) && (
          <button className="quiet" onClick={open}>
            <Eye aria-hidden /> {t("call.original")}
          </button>
        )}
      </p>
      <ProblemText text={problem} />
      {content !== null && <ResultViewer title={t("call.originalOf", { tool: name })} tool={result.tool} content={content} onClose={() => setContent(null)} />}
    </>
  )
}
