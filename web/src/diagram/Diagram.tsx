// A Mermaid diagram, drawn by a sandboxed frame. It is code until it is drawn, and stays code if it cannot be.
import { useEffect, useRef, useState } from "react"
import { CodeBlock } from "../components/markdown/CodeBlock"
import { CopyButton } from "../components/CopyButton"
import { useTranslate } from "../locales"
import { useIsDark } from "../app/theme"
import { resolveUrl } from "../wire/http"
import type { DiagramReply, DiagramRequest } from "./messages"

/** A longer source could keep the frame busy for minutes. */
const MAX_SOURCE_CHARS = 20_000
/** Also for loading the frame's script, of 1 MB. */
const DEADLINE_MS = 20_000
const MAX_HEIGHT_PX = 3000
const MAX_NAME_CHARS = 80
const MAX_KNOWN_HEIGHTS = 200
/** By source: a row that is scrolled back into view has its height at once, and nothing below it moves. */
const knownHeights = new Map<string, number>()

export function Diagram({ source }: { source: string }) {
  const t = useTranslate()
  const isDark = useIsDark()
  const [failed, setFailed] = useState(false)
  if (failed || source.length > MAX_SOURCE_CHARS) return <CodeBlock text={source} language="mermaid" label={t(failed ? "diagram.failed" : "diagram.long")} />
  // A frame draws once, so other colours are another frame.
  return <DiagramFrame key={`${isDark} ${source}`} source={source} dark={isDark} onFail={() => setFailed(true)} />
}

function DiagramFrame({ source, dark, onFail }: DiagramRequest & { onFail: () => void }) {
  const t = useTranslate()
  const frame = useRef<HTMLIFrameElement>(null)
  const [height, setHeight] = useState(() => knownHeights.get(source) ?? 0)
  const fail = useRef(onFail)
  useEffect(() => {
    const { port1: port, port2: frameSide } = new MessageChannel()
    const deadline = setTimeout(() => fail.current(), DEADLINE_MS)
    port.onmessage = ({ data }: MessageEvent<DiagramReply>) => {
      clearTimeout(deadline)
      if (!data.drawn) return fail.current()
      const drawn = Math.min(data.height, MAX_HEIGHT_PX)
      if (knownHeights.size >= MAX_KNOWN_HEIGHTS) knownHeights.clear()
      knownHeights.set(source, drawn)
      setHeight(drawn)
    }
    const request: DiagramRequest = { source, dark }
    // The frame's origin is opaque: it has no name that the message could be addressed to.
    const send = () => frame.current?.contentWindow?.postMessage(request, "*", [frameSide])
    frame.current!.addEventListener("load", send, { once: true })
    return () => {
      clearTimeout(deadline)
      port.close()
    }
  }, [source, dark])
  const name = t("diagram.name", { text: source.trim().replace(/\s+/g, " ").slice(0, MAX_NAME_CHARS) })
  return (
    <div className="diagram" data-drawn={height > 0 || undefined}>
      {height > 0 ? (
        <div className="code-head">
          <span>{t("diagram.kind")}</span>
          <CopyButton text={source} label={t("diagram.copy")} />
        </div>
      ) : (
        <CodeBlock text={source} language="mermaid" />
      )}
      <iframe ref={frame} title={name} src={resolveUrl("diagram").href} sandbox="allow-scripts" referrerPolicy="no-referrer" tabIndex={-1} style={height ? { height } : undefined} />
    </div>
  )
}
