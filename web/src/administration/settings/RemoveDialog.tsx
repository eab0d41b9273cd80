import { useState, type ReactNode } from "react"
import { Dialog } from "../../components/Dialog"
import { ProblemText } from "../../components/ProblemText"
import { useTranslate } from "../../locales"
import { useProblem } from "../../wire/useProblem"

interface RemoveDialogProps {
  title: string
  /** The word on the button that does it. */
  action: string
  remove: () => Promise<unknown>
  onClose: () => void
  children?: ReactNode
}

/** Asks before something is removed, and stays open with the reason if that fails. */
export function RemoveDialog({ title, action, remove, onClose, children }: RemoveDialogProps) {
  const t = useTranslate()
  const [problem, fail, clear] = useProblem()
  const [busy, setBusy] = useState(false)
  const confirm = async () => {
    setBusy(true)
    clear()
    try {
      await remove()
    } catch (error) {
      fail(error)
      setBusy(false)
    }
  }
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      <ProblemText text={problem} />
      <footer>
        <button onClick={onClose}>{t("common.cancel")}</button>
        <button className="danger" disabled={busy} onClick={() => void confirm()}>
          {action}
        </button>
      </footer>
    </Dialog>
  )
}
