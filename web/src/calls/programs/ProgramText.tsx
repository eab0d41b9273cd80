import { useEffect, useRef } from "react"
import { CopyButton } from "../../components/CopyButton"
import { useHighlight } from "../../components/markdown/useHighlight"
import { useTranslate } from "../../locales"

const NO_LINES: number[] = []

/** The text of a program with the numbers of its lines. The lines at which the program is now are marked. */
export function ProgramText({ text, running = NO_LINES }: { text: string; running?: number[] }) {
  const t = useTranslate()
  const code = text.replace(/\n+$/, "")
  const html = useHighlight(code, "python")
  const box = useRef<HTMLPreElement>(null)
  const first = running[0] ?? 0
  useEffect(() => {
    const line = box.current?.querySelector<HTMLElement>(`[data-line="${first}"]`)
    if (box.current && line) box.current.scrollTop = line.offsetTop - box.current.clientHeight / 2
  }, [first])
  return (
    <div className="json program-text" role="group" aria-label={t("program.text")}>
      <CopyButton text={text} />
      <pre tabIndex={0} ref={box}>
        <code>
          {code.split("\n").map((line, index) => {
            const current = running.includes(index + 1) ? "step" : undefined
            const content = html?.[index]
            const shared = { className: "program-line", "data-line": index + 1, "aria-current": current } as const
            return content === undefined ? <span key={index} {...shared}>{`${line}\n`}</span> : <span key={index} {...shared} dangerouslySetInnerHTML={{ __html: `${content}\n` }} />
          })}
        </code>
      </pre>
    </div>
  )
}
