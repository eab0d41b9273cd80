import { Search } from "lucide-react"
import { useState } from "react"
import { useTranslate } from "../locales"
import { useCommandKeys, useCommands } from "../state/commands"
import { CommandPalette } from "./CommandPalette"
import { Shortcuts } from "./Shortcuts"

/** Opens the command palette, by a click or with Ctrl K (on a Mac also with ⌘ K), and the list of shortcuts with `?`. */
export function PaletteButton() {
  const t = useTranslate()
  const [open, setOpen] = useState<"palette" | "shortcuts" | null>(null)
  useCommandKeys()
  useCommands([
    { id: "palette", label: t("palette.title"), run: () => setOpen("palette"), keys: { key: "k", ctrl: true } },
    { id: "shortcuts", label: t("keys.title"), run: () => setOpen("shortcuts"), keys: { key: "?" } },
  ])
  return (
    <>
      <button className="icon" aria-label={t("palette.title")} title={`${t("palette.title")} (Ctrl K)`} aria-keyshortcuts="Control+K Meta+K" onClick={() => setOpen("palette")}>
        <Search aria-hidden />
      </button>
      {open === "palette" && <CommandPalette onClose={() => setOpen((shown) => (shown === "palette" ? null : shown))} />}
      {open === "shortcuts" && <Shortcuts onClose={() => setOpen(null)} />}
    </>
  )
}
