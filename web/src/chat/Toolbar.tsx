import { Activity, SlidersHorizontal } from "lucide-react"
import { useState } from "react"
import { hrefOf } from "../route"
import type { View } from "../state/view"
import { useSay } from "../locales"
import { EnabledTools } from "./EnabledTools"

export function Toolbar({ conversation, view, mine }: { conversation: string; view: View; mine: boolean }) {
  const say = useSay()
  const [tools, setTools] = useState(false)
  const waiting = view.run?.waiting
  return (
    <header className="toolbar">
      <h1>{view.title || (view.seq > 0 && say("list.untitled"))}</h1>
      {view.run && <span className={waiting ? "pill asking" : "pill running"}>{say(waiting ? "chat.waiting" : "chat.working")}</span>}
      <span className="grow" />
      {mine && (
        <button className="icon" aria-label={say("chat.tools")} title={say("chat.tools")} onClick={() => setTools(true)}>
          <SlidersHorizontal aria-hidden />
        </button>
      )}
      <a className="icon" href={hrefOf("traces", `in:${conversation}`)} aria-label={say("chat.trace")} title={say("chat.trace")}>
        <Activity aria-hidden />
      </a>
      {tools && <EnabledTools conversation={conversation} onClose={() => setTools(false)} />}
    </header>
  )
}
