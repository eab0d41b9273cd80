import { Check, Copy as CopyIcon } from "lucide-react"
import { useEffect, useState } from "react"
import { useSay } from "../locales"

export function Copy({ text, label }: { text: string; label?: string }) {
  const say = useSay()
  const [done, setDone] = useState(false)
  useEffect(() => {
    if (!done) return
    const timer = setTimeout(() => setDone(false), 1500)
    return () => clearTimeout(timer)
  }, [done])
  const copy = () => void copied(text).then(setDone)
  const said = done ? say("common.copied") : (label ?? say("common.copy"))
  return (
    <button type="button" className="quiet copy" aria-label={said} title={said} onClick={copy}>
      {done ? <Check aria-hidden /> : <CopyIcon aria-hidden />}
      {label && <span>{said}</span>}
    </button>
  )
}

/** Browsers lend the clipboard to pages from this machine or over HTTPS; elsewhere a selected text is copied, as ever. */
async function copied(text: string): Promise<boolean> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text).then(() => true)
  const focused = document.activeElement as HTMLElement | null
  const area = document.createElement("textarea")
  area.className = "unseen"
  area.value = text
  document.body.append(area)
  area.select()
  const done = document.execCommand("copy")
  area.remove()
  focused?.focus()
  return done
}
