import { useState } from "react"
import type { Suggestion } from "../../wire/types"
import { useConversation } from "../../state/conversationContext"

/** Replies that the model suggests; picking one sends it, or writes it into the composer if it is an example to edit. */
export function Suggestions({ suggestions }: { suggestions: Suggestion[] }) {
  const { send, write } = useConversation()
  const [sent, setSent] = useState(false)
  if (!send || sent || !suggestions.length) return null
  const pick = ({ text, edit }: Suggestion) => {
    if (edit) return write?.(text)
    setSent(true)
    send(text).catch(() => setSent(false))
  }
  return (
    <div className="suggestions">
      {suggestions.map((suggestion) => (
        <button key={suggestion.text} title={suggestion.edit ? suggestion.text : undefined} onClick={() => pick(suggestion)}>
          {suggestion.label}
        </button>
      ))}
    </div>
  )
}
