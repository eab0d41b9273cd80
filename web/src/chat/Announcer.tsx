import type { View } from "../state/view"
import { useSay } from "../locales"

/** Says to a screen reader what the eye sees move: not every word, only where things stand. */
export function Announcer({ view, waiting }: { view: View; waiting: number }) {
  const say = useSay()
  const last = view.rows.at(-1)
  const said = waiting
    ? say("ask.several", { n: waiting })
    : view.run
      ? say("chat.working")
      : last?.kind === "ending"
        ? say(`ending.${last.ending === "done" ? "cancelled" : last.ending}`)
        : last?.kind === "turn"
          ? say("chat.answerEnded")
          : ""
  return (
    <div className="unseen" role="status" aria-live="polite">
      {said}
    </div>
  )
}
