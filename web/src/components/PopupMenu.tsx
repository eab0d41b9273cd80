// A button that opens a small menu of buttons and links. Escape, a click beside it and choosing an entry close it.
import { useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react"

interface PopupMenuProps {
  label: string
  icon: ReactNode
  className?: string
  children: ReactNode
}

export function PopupMenu({ label, icon, className = "", children }: PopupMenuProps) {
  const [open, setOpen] = useState(false)
  const menu = useRef<HTMLDivElement>(null)
  const opener = useRef<HTMLButtonElement>(null)
  const popup = useRef<HTMLDivElement>(null)
  // With every drawing, not only the first: a button that appears beside the opener moves the open menu with it.
  useLayoutEffect(() => {
    if (popup.current) keepVisible(popup.current)
  })
  useEffect(() => {
    if (!open) return
    const close = (event: Event) => {
      if (event instanceof KeyboardEvent ? event.key !== "Escape" : menu.current?.contains(event.target as Node)) return
      if (event instanceof KeyboardEvent) {
        event.preventDefault()
        opener.current?.focus()
      }
      setOpen(false)
    }
    addEventListener("pointerdown", close)
    addEventListener("keydown", close)
    return () => {
      removeEventListener("pointerdown", close)
      removeEventListener("keydown", close)
    }
  }, [open])
  // The entry goes away with the menu: a dialog that it opens gives the focus back to the button that opened the menu.
  const choose = () => {
    opener.current?.focus()
    setOpen(false)
  }
  return (
    <div className={`popup-menu ${className}`} ref={menu} onBlur={(event) => open && event.relatedTarget && !event.currentTarget.contains(event.relatedTarget) && setOpen(false)}>
      <button type="button" className="icon" ref={opener} aria-label={label} title={label} aria-expanded={open} onClick={() => setOpen(!open)}>
        {icon}
      </button>
      {open && (
        <div className="popup" ref={popup} onClick={(event) => (event.target as Element).closest("button, a") && choose()}>
          {children}
        </div>
      )}
    </div>
  )
}

const MARGIN_PX = 4

/** Open a menu upwards if it would end below the messages, and move it inwards if it would leave the window. */
function keepVisible(popup: HTMLElement): void {
  delete popup.dataset["up"]
  popup.style.translate = ""
  const { top, bottom, left, right, height } = popup.getBoundingClientRect()
  const frame = popup.closest(".thread")?.getBoundingClientRect()
  if (bottom > (frame?.bottom ?? innerHeight) && top - height > (frame?.top ?? 0)) popup.dataset["up"] = ""
  const shift = Math.min(0, innerWidth - MARGIN_PX - right) || Math.max(0, MARGIN_PX - left)
  if (shift) popup.style.translate = `${shift}px 0`
}
