// A result that is too long for its card: its beginning, and a viewer with search and download for the whole.
import { Download, Maximize2 } from "lucide-react"
import { useMemo, useState } from "react"
import { CopyButton } from "../components/CopyButton"
import { Dialog } from "../components/Dialog"
import { downloadText } from "../components/download"
import { useTranslate } from "../locales"
import { useToolName } from "../state/tools"

const MAX_PREVIEW_CHARS = 600
/** Of more lines only the first are rendered; the search looks through all of them. */
const MAX_LINES = 2000

export function LargeResult({ tool, content }: { tool: string; content: string }) {
  const t = useTranslate()
  const name = useToolName(tool)
  const [open, setOpen] = useState(false)
  const text = useMemo(() => formatJson(content), [content])
  return (
    <>
      <pre className="result-preview">{text.slice(0, MAX_PREVIEW_CHARS)}…</pre>
      <button onClick={() => setOpen(true)}>
        <Maximize2 aria-hidden /> {t("result.open")}
      </button>
      {open && <ResultViewer title={t("result.title", { tool: name })} tool={tool} content={content} onClose={() => setOpen(false)} />}
    </>
  )
}

interface ResultViewerProps {
  title: string
  tool: string
  content: string
  onClose: () => void
}

export function ResultViewer({ title, tool, content, onClose }: ResultViewerProps) {
  const t = useTranslate()
  const text = useMemo(() => formatJson(content), [content])
  const isJson = text !== content || /^[[{]/.test(content)
  const [query, setQuery] = useState("")
  const lines = useMemo(() => text.split("\n"), [text])
  const found = useMemo(() => (query.trim() ? lines.filter((line) => line.toLowerCase().includes(query.trim().toLowerCase())) : lines), [lines, query])
  return (
    <Dialog title={title} onClose={onClose}>
      <div className="result-tools">
        <input type="search" aria-label={t("result.search")} placeholder={t("result.search")} value={query} onChange={(event) => setQuery(event.target.value)} />
        <CopyButton text={text} label={t("common.copy")} iconOnly />
        <button className="quiet" onClick={() => downloadText(`${tool}.${isJson ? "json" : "txt"}`, text)}>
          <Download aria-hidden /> {t("result.download")}
        </button>
      </div>
      <small role="status">{query.trim() && t("result.matches", { n: found.length })}</small>
      <pre className="result-whole" tabIndex={0}>
        {found.slice(0, MAX_LINES).join("\n")}
        {found.length > MAX_LINES && `\n+ ${found.length - MAX_LINES}`}
      </pre>
    </Dialog>
  )
}

function formatJson(content: string): string {
  try {
    const value: unknown = JSON.parse(content)
    return typeof value === "string" ? value : JSON.stringify(value, null, 2)
  } catch {
    return content
  }
}
