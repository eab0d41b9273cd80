// A model's text as Markdown. Each block is memoized by its source: while an answer streams, only the last block renders
// again, however long the answer is.
import { lazy, memo, Suspense, useEffect, useMemo, useState } from "react"
import { CodeBlock } from "./CodeBlock"
import { CsvButton } from "./CsvButton"
import { parseBlocks, sanitizeHtml, type Block } from "./markdownBlocks"

/** A chunk of its own: few answers have a diagram. */
const Diagram = lazy(() => import("../../diagram/Diagram").then(({ Diagram }) => ({ default: Diagram })))

export const Markdown = memo(function Markdown({ text, open = false }: { text: string; open?: boolean }) {
  const blocks = useMemo(() => parseBlocks(text), [text])
  return (
    <div className="markdown" data-open={open || undefined}>
      {blocks.map((block, index) => (
        <BlockView key={index} block={block} open={open && index === blocks.length - 1} finished={!open} />
      ))}
    </div>
  )
})

const BlockView = memo(
  function BlockView({ block, open, finished }: { block: Block; open: boolean; finished: boolean }) {
    switch (block.kind) {
      case "code": {
        const code = <CodeBlock text={block.text} language={block.language} open={open} />
        return finished && block.language === "mermaid" ? (
          <Suspense fallback={code}>
            <Diagram source={block.text} />
          </Suspense>
        ) : (
          code
        )
      }
      case "list": {
        const items = block.items.map((item, index) => <Html key={index} as="li" raw={item.raw} html={item.html} task={item.task ?? false} open={open && index === block.items.length - 1} />)
        return block.start === null ? <ul>{items}</ul> : <ol start={block.start}>{items}</ol>
      }
      case "table":
        return (
          <div className="table-block">
            <Html as="div" raw={block.raw} html={block.html} open={open} />
            {!open && <CsvButton rows={block.rows} />}
          </div>
        )
      case "html":
        return <Html as="div" raw={block.raw} html={block.html} open={open} />
      default:
        return block satisfies never
    }
  },
  // Only code can become a diagram: when an answer is finished, all other blocks stay as they are.
  (before, after) => before.block.raw === after.block.raw && before.open === after.open && (before.finished === after.finished || after.block.kind !== "code"),
)

const Html = memo(
  function Html({ as: As, html, open, task = false }: { as: "li" | "div"; raw: string; html: () => string; open: boolean; task?: boolean }) {
    const source = sanitizeHtml(html())
    return <As className={task ? "task" : undefined} dangerouslySetInnerHTML={{ __html: useFormulas(source, open) }} />
  },
  (before, after) => before.raw === after.raw && before.open === after.open,
)

/** Return the HTML with its formulas drawn. Until their chunk is loaded, and while the block grows, they are source. */
function useFormulas(source: string, open: boolean): string {
  const [drawn, setDrawn] = useState<{ source: string; html: string } | null>(null)
  useEffect(() => {
    if (open || !source.includes("<var>")) return
    let unmounted = false
    void import("./math").then(({ renderFormulas }) => {
      if (!unmounted) setDrawn({ source, html: renderFormulas(source) })
    })
    return () => {
      unmounted = true
    }
  }, [source, open])
  return drawn?.source === source ? drawn.html : source
}
