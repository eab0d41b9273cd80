import { CircleDashed } from "lucide-react"
import { useTranslate } from "../locales"
import { useToolName } from "../state/tools"

const MAX_DRAFT_CHARS = 90

/** The card of a call whose arguments the model is still writing. */
export function DraftCard({ tool, text }: { tool: string; text: string }) {
  const t = useTranslate()
  const name = useToolName(tool)
  return (
    <section className="call" role="group" data-state="written" aria-label={t("call.label", { tool: name })}>
      <div className="call-head">
        <CircleDashed className="call-icon" aria-hidden />
        <strong title={tool}>{name}</strong>
        <span className="call-brief">{text.slice(-MAX_DRAFT_CHARS)}</span>
        <span className="call-state">{t("phase.written")}</span>
      </div>
    </section>
  )
}
