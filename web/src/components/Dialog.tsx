import { useEffect, useRef, type ReactNode } from "react"
import { X } from "lucide-react"
import { useSay } from "../locales"

/** A question above the page. The browser's own dialog keeps the focus inside and closes with Esc. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ReactNode }) {
  const say = useSay()
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const shown = dialog.current
    shown?.showModal()
    return () => shown?.close()
  }, [])
  return (
    <dialog ref={dialog} aria-label={title} onCancel={onClose} onClick={(event) => event.target === dialog.current && onClose()}>
      <div className="dialog-body">
        <header>
          <h2>{title}</h2>
          <button type="button" className="icon" aria-label={say("common.close")} onClick={onClose}>
            <X aria-hidden />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  )
}
