import { useState } from "react"
import type { Suggestion } from "../wire/types"
import { useConversation } from "../state/conversationContext"

/** Replies that the model suggests; picking one sends it. */
export function Suggestions({ suggestions }: { suggestions: Suggestion[] }) {
  const { send } = useConversation()
  const [sent, setSent] = useState(false)
  if (!send || sent || !suggestions.length) return null
  const pick = (text: string) => {
    setSent(true)
    send(text).catch(() => setSent(false))
  }
  return (
    <div className="suggestions">
      {suggestions.map((suggestion) => (
        <button key={suggestion.text} onClick={() => pick(suggestion.text)}>
          {suggestion.label}
        </button>
      ))}
    </div>
  )
}
