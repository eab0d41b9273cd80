// A model's words as Markdown. It is made of blocks that are kept: while an answer streams, only its last one is new.
import { memo, useMemo } from "react"
import { CodeBlock } from "./CodeBlock"
import { blocks, clean, type Block } from "./markdown"

export const Markdown = memo(function Markdown({ text, open = false }: { text: string; open?: boolean }) {
  const made = useMemo(() => blocks(text), [text])
  return (
    <div className="markdown" data-open={open || undefined}>
      {made.map((block, index) => (
        <Drawn key={index} block={block} open={open && index === made.length - 1} />
      ))}
    </div>
  )
})

const Drawn = memo(
  function Drawn({ block, open }: { block: Block; open: boolean }) {
    const html = useMemo(() => (block.kind === "html" ? { __html: clean(block.html()) } : null), [block])
    if (block.kind === "code") return <CodeBlock text={block.text} language={block.language} open={open} />
    return <div dangerouslySetInnerHTML={html!} />
  },
  (before, after) => before.block.raw === after.block.raw && before.open === after.open,
)
