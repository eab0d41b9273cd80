import { CopyButton } from "../CopyButton"
import { useHighlight } from "./useHighlight"

/** A block of code. */
export function CodeBlock({ text, language, label = language, open = false }: { text: string; language: string; label?: string; open?: boolean }) {
  const lines = useHighlight(text, language, open)
  return (
    <div className="code">
      <div className="code-head">
        <span>{label || "text"}</span>
        <CopyButton text={text} />
      </div>
      <pre tabIndex={0}>{lines ? <code dangerouslySetInnerHTML={{ __html: lines.join("\n") }} /> : <code>{text}</code>}</pre>
    </div>
  )
}
