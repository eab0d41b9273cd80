import { Check, Copy as CopyIcon } from "lucide-react"
import { useEffect, useState } from "react"
import { useSay } from "../words"

export function Copy({ text, label }: { text: string; label?: string }) {
  const say = useSay()
  const [done, setDone] = useState(false)
  useEffect(() => {
    if (!done) return
    const timer = setTimeout(() => setDone(false), 1500)
    return () => clearTimeout(timer)
  }, [done])
  const copy = () => void navigator.clipboard.writeText(text).then(() => setDone(true))
  const said = done ? say("common.copied") : (label ?? say("common.copy"))
  return (
    <button type="button" className="quiet copy" aria-label={said} title={said} onClick={copy}>
      {done ? <Check aria-hidden /> : <CopyIcon aria-hidden />}
      {label && <span>{said}</span>}
    </button>
  )
}
