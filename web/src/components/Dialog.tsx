import { useLayoutEffect, useRef, type ReactNode } from "react"
import { X } from "lucide-react"
import { useTranslate } from "../locales"

interface DialogProps {
  title: string
  onClose: () => void
  /** Whether only its buttons close it, and neither Esc nor a click beside it: what it shows is not shown again. */
  keepOpen?: boolean
  children: ReactNode
}

/** A modal dialog. The browser's own element keeps the focus inside and closes with Esc. */
export function Dialog({ title, onClose, keepOpen = false, children }: DialogProps) {
  const t = useTranslate()
  const dialog = useRef<HTMLDialogElement>(null)
  // A layout effect, as the dialog has to be closed while it is still in the document: only then does the browser give the
  // focus back to the element that had it before.
  useLayoutEffect(() => {
    const element = dialog.current
    element?.showModal()
    element?.querySelector<HTMLElement>("input:not([type=checkbox]), textarea")?.focus()
    return () => element?.close()
  }, [])
  return (
    <dialog ref={dialog} aria-label={title} onCancel={(event) => (keepOpen ? event.preventDefault() : onClose())} onClick={(event) => event.target === dialog.current && !keepOpen && onClose()}>
      <div className="dialog-body">
        <header>
          <h2>{title}</h2>
          <button type="button" className="icon" aria-label={t("common.close")} onClick={onClose}>
            <X aria-hidden />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  )
}
