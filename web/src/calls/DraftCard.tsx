import { CircleDashed } from "lucide-react"
import { useSay } from "../locales"

/** A call that the model is still writing. */
export function DraftCard({ tool, text }: { tool: string; text: string }) {
  const say = useSay()
  return (
    <section className="call" data-state="written" aria-label={say("call.label", { tool })}>
      <div className="call-head">
        <CircleDashed className="call-icon" aria-hidden />
        <code>{tool}</code>
        <span className="call-brief">{text.slice(-90)}</span>
        <span className="call-state">{say("phase.written")}</span>
      </div>
    </section>
  )
}
