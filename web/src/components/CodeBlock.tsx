import { useEffect, useState } from "react"
import { CopyButton } from "./CopyButton"

/** Longer code stays plain: highlighting it would block the page. */
const MAX_HIGHLIGHTED_CHARS = 20_000

/** A block of code. The highlighter is a chunk of its own, loaded when the first complete block is shown. */
export function CodeBlock({ text, language, label = language, open = false }: { text: string; language: string; label?: string; open?: boolean }) {
  const [html, setHtml] = useState<{ text: string; html: string } | null>(null)
  useEffect(() => {
    if (open || !language || text.length > MAX_HIGHLIGHTED_CHARS) return
    let unmounted = false
    void import("./highlight").then(({ highlightCode }) => {
      const highlighted = highlightCode(text, language)
      if (!unmounted && highlighted !== null) setHtml({ text, html: highlighted })
    })
    return () => {
      unmounted = true
    }
  }, [text, language, open])
  return (
    <div className="code">
      <div className="code-head">
        <span>{label || "text"}</span>
        <CopyButton text={text} />
      </div>
      <pre tabIndex={0}>{html?.text === text ? <code dangerouslySetInnerHTML={{ __html: html.html }} /> : <code>{text}</code>}</pre>
    </div>
  )
}
