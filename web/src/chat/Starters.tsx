import { useMemo } from "react"
import { useTools } from "../state/tools"

const MAX_STARTERS = 4

/** Example requests from the tools, to start a conversation with. */
export function Starters({ send }: { send: (text: string) => Promise<void> }) {
  const tools = useTools()
  const examples = useMemo(() => [...tools.values()].flatMap((tool) => tool.examples.slice(0, 1)).slice(0, MAX_STARTERS), [tools])
  if (!examples.length) return null
  return (
    <div className="starters">
      {examples.map((example) => (
        <button key={example} onClick={() => void send(example)}>
          {example}
        </button>
      ))}
    </div>
  )
}
