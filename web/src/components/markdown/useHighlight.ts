import { useEffect, useState } from "react"

/** Longer code stays plain: highlighting it would block the page. */
const MAX_HIGHLIGHTED_CHARS = 20_000

/**
 * Return the lines of a text as HTML, or null until the highlighter is there. It is a chunk of its own, loaded when the
 * first complete block is shown. Code that is `open` is still being written, and is not highlighted.
 */
export function useHighlight(text: string, language: string, open = false): string[] | null {
  const [done, setDone] = useState<{ text: string; lines: string[] } | null>(null)
  useEffect(() => {
    if (open || !language || text.length > MAX_HIGHLIGHTED_CHARS) return
    let unmounted = false
    void import("./highlight").then(({ highlightLines }) => {
      const lines = highlightLines(text, language)
      if (!unmounted && lines !== null) setDone({ text, lines })
    })
    return () => {
      unmounted = true
    }
  }, [text, language, open])
  return done?.text === text ? done.lines : null
}
