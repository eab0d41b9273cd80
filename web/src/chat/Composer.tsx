import { ArrowUp, Square } from "lucide-react"
import { useEffect, useRef, useState, type KeyboardEvent } from "react"
import { said } from "../wire/http"
import { useSay } from "../locales"
import { OfflineNotice } from "./OfflineNotice"

interface ComposerProps {
  send: (text: string) => Promise<void>
  /** Given while something runs. */
  stop?: (() => void) | undefined
  stopping?: boolean
}

export function Composer({ send, stop, stopping = false }: ComposerProps) {
  const say = useSay()
  const [text, setText] = useState("")
  const [busy, setBusy] = useState(false)
  const [problem, setProblem] = useState("")
  const field = useRef<HTMLTextAreaElement>(null)
  useEffect(() => {
    if (matchMedia("(hover: hover)").matches) field.current?.focus()
  }, [])
  const submit = async () => {
    const message = text.trim()
    if (!message || busy) return
    setBusy(true)
    setProblem("")
    setText("")
    try {
      await send(message)
    } catch (error) {
      setProblem(said(error))
      setText(message)
    } finally {
      setBusy(false)
      field.current?.focus()
    }
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return
    event.preventDefault()
    void submit()
  }
  return (
    <div className="composer">
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      <OfflineNotice />
      <form
        className="composer-box"
        onSubmit={(event) => {
          event.preventDefault()
          void submit()
        }}
      >
        <textarea ref={field} rows={1} aria-label={say("chat.write")} placeholder={say("chat.placeholder")} value={text} onChange={(event) => setText(event.target.value)} onKeyDown={onKey} />
        {stop && (
          <button type="button" className="round stop" aria-label={say(stopping ? "chat.stopping" : "chat.stop")} title={say("chat.stop")} disabled={stopping} onClick={stop}>
            <Square aria-hidden />
          </button>
        )}
        <button className="round send" aria-label={say("chat.send")} title={say("chat.send")} disabled={!text.trim() || busy}>
          <ArrowUp aria-hidden />
        </button>
      </form>
      <p className="hint">{say("chat.hint")}</p>
    </div>
  )
}
