import { Check, Copy as CopyIcon } from "lucide-react"
import { useEffect, useState } from "react"
import { useTranslate } from "../locales"

/** A button that copies a text. A label is shown beside the icon, unless it is only a name for the icon. */
export function CopyButton({ text, label, iconOnly = false }: { text: string; label?: string; iconOnly?: boolean }) {
  const t = useTranslate()
  const [done, setDone] = useState(false)
  useEffect(() => {
    if (!done) return
    const timer = setTimeout(() => setDone(false), 1500)
    return () => clearTimeout(timer)
  }, [done])
  const copy = () => void copyText(text).then(setDone)
  const name = done ? t("common.copied") : (label ?? t("common.copy"))
  return (
    <button type="button" className="quiet copy" aria-label={name} title={name} onClick={copy}>
      {done ? <Check aria-hidden /> : <CopyIcon aria-hidden />}
      {label && !iconOnly && <span>{name}</span>}
    </button>
  )
}

/**
 * Copy a text and return whether that worked. A browser has the clipboard API only on localhost and over HTTPS; elsewhere
 * a selected text is copied with the older command.
 */
export async function copyText(text: string): Promise<boolean> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text).then(() => true)
  const focused = document.activeElement as HTMLElement | null
  const area = document.createElement("textarea")
  area.className = "visually-hidden"
  area.value = text
  document.body.append(area)
  area.select()
  const done = document.execCommand("copy")
  area.remove()
  focused?.focus()
  return done
}
