import { useMemo } from "react"
import { useTools } from "../state/tools"
import { useLanguage, useTranslate } from "../locales"
import { isInLanguage } from "./exampleLanguage"

const MAX_STARTERS = 4

/** Requests to start a conversation with: examples of the tools in the page's language, else questions about the tools. */
export function Starters({ send }: { send: (text: string) => Promise<void> }) {
  const t = useTranslate()
  const language = useLanguage()
  const tools = useTools()
  const starters = useMemo(() => {
    const examples = [...tools.values()].flatMap((tool) => tool.examples.filter((example) => isInLanguage(example, language)).slice(0, 1))
    return tools.size && !examples.length ? [t("starter.abilities"), t("starter.tools")] : examples.slice(0, MAX_STARTERS)
  }, [tools, language, t])
  if (!starters.length) return null
  return (
    <div className="starters">
      {starters.map((starter) => (
        <button key={starter} onClick={() => void send(starter)}>
          {starter}
        </button>
      ))}
    </div>
  )
}
