import { useMemo } from "react"
import { useTools } from "../state/tools"

const MOST = 4

/** What the tools say one could ask. */
export function Starters({ send }: { send: (text: string) => Promise<void> }) {
  const tools = useTools()
  const examples = useMemo(() => [...tools.values()].flatMap((tool) => tool.examples.slice(0, 1)).slice(0, MOST), [tools])
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
