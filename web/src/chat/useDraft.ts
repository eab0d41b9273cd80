import { useCallback, useEffect, useRef, useState } from "react"
import { useMe } from "../session/caller"
import { loadDraft, saveDraft } from "../state/drafts"

const TYPING_PAUSE_MS = 300

/** Return the text of the composer and a function that sets it. The text is kept across pages and reloads until it is sent. */
export function useDraft(conversation: string): [string, (text: string) => void] {
  const { user } = useMe()
  const [text, setText] = useState(() => loadDraft(user, conversation))
  /** The text that is not saved yet; null if all is saved. */
  const unsaved = useRef<string | null>(null)
  const timer = useRef(0)
  const save = useCallback(() => {
    clearTimeout(timer.current)
    if (unsaved.current !== null) saveDraft(user, conversation, unsaved.current)
    unsaved.current = null
  }, [user, conversation])
  useEffect(() => {
    addEventListener("pagehide", save)
    return () => {
      removeEventListener("pagehide", save)
      save()
    }
  }, [save])
  const change = useCallback(
    (changed: string) => {
      setText(changed)
      unsaved.current = changed
      if (!changed) return save() // at once: a message that was sent must not come back
      clearTimeout(timer.current)
      timer.current = window.setTimeout(save, TYPING_PAUSE_MS)
    },
    [save],
  )
  return [text, change]
}
