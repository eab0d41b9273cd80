import { useEffect, useState } from "react"
import { Copy } from "./CopyButton"

const LONGEST_COLOURED = 20_000

/** Code with its colours, which come a moment later: what they need is not part of the first load. */
export function CodeBlock({ text, language, open = false }: { text: string; language: string; open?: boolean }) {
  const [html, setHtml] = useState<{ text: string; html: string } | null>(null)
  useEffect(() => {
    if (open || !language || text.length > LONGEST_COLOURED) return
    let left = false
    void import("./highlight").then(({ coloured }) => {
      const made = coloured(text, language)
      if (!left && made !== null) setHtml({ text, html: made })
    })
    return () => {
      left = true
    }
  }, [text, language, open])
  return (
    <div className="code">
      <div className="code-head">
        <span>{language || "text"}</span>
        <Copy text={text} />
      </div>
      <pre tabIndex={0}>{html?.text === text ? <code dangerouslySetInnerHTML={{ __html: html.html }} /> : <code>{text}</code>}</pre>
    </div>
  )
}
