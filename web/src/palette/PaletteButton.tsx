import { Search } from "lucide-react"
import { Suspense, lazy, useEffect, useState } from "react"
import { useTranslate } from "../locales"

const CommandPalette = lazy(() => import("./CommandPalette"))

/** Opens the command palette, by a click or with Ctrl K (on a Mac also with ⌘ K). */
export function PaletteButton() {
  const t = useTranslate()
  const [open, setOpen] = useState(false)
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || event.key.toLowerCase() !== "k") return
      event.preventDefault() // a browser would put the cursor into its address bar
      // A dialog that is open comes first: two of them would hide each other.
      if (!document.querySelector("dialog[open]")) setOpen(true)
    }
    addEventListener("keydown", onKey)
    return () => removeEventListener("keydown", onKey)
  }, [])
  return (
    <>
      <button className="icon" aria-label={t("palette.title")} title={`${t("palette.title")} (Ctrl K)`} aria-keyshortcuts="Control+K Meta+K" onClick={() => setOpen(true)}>
        <Search aria-hidden />
      </button>
      {open && (
        <Suspense fallback={null}>
          <CommandPalette onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  )
}
