import type { ConversationView } from "../state/view"
import { useTranslate } from "../locales"

/** Announces the state of the conversation to screen readers; reading out streamed text would never come to an end. */
export function Announcer({ view, waiting, waitsFor }: { view: ConversationView; waiting: number; waitsFor: string }) {
  const t = useTranslate()
  const last = view.rows.at(-1)
  const announcement = waiting
    ? waitsFor
      ? t("chat.waitingFor", { who: waitsFor })
      : t("ask.several", { n: waiting })
    : view.run
      ? t("chat.working")
      : last?.kind === "ending"
        ? t(`ending.${last.ending === "done" ? "cancelled" : last.ending}`)
        : last?.kind === "turn"
          ? t("chat.answerEnded")
          : ""
  return (
    <div className="visually-hidden" role="status" aria-live="polite">
      {announcement}
    </div>
  )
}
