import { Undo2, X } from "lucide-react"
import { useEffect, useRef } from "react"
import { offerUndo, useUndoableChange, type UndoableChange } from "../state/undo"
import { useProblem } from "../wire/useProblem"
import { useTranslate } from "../locales"

/** Says what was just done, with a button that undoes it. */
export function UndoBar() {
  const change = useUndoableChange()
  return (
    <div className="undo-place" aria-live="polite">
      {change && <UndoOffer key={change.text} change={change} />}
    </div>
  )
}

function UndoOffer({ change }: { change: UndoableChange }) {
  const t = useTranslate()
  const [problem, fail] = useProblem()
  const button = useRef<HTMLButtonElement>(null)
  // The conversation goes from the list with its menu: without this the focus would be lost.
  useEffect(() => {
    if (document.activeElement === document.body || document.activeElement?.closest(".conversation-item")) button.current?.focus()
  }, [])
  return (
    <div className="undo-bar">
      <span>{problem || change.text}</span>
      <button ref={button} onClick={() => void change.undo().then(() => offerUndo(null), fail)}>
        <Undo2 aria-hidden /> {t("common.undo")}
      </button>
      <button className="icon" aria-label={t("common.close")} onClick={() => offerUndo(null)}>
        <X aria-hidden />
      </button>
    </div>
  )
}
