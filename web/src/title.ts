import { useEffect } from "react"

const NAME = "Toolyard"

/** What the tab is called: tabs, histories and screen readers tell pages apart by it. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · ${NAME}` : NAME
    return () => {
      document.title = NAME
    }
  }, [title])
}

/** The same for a page that has no better name than where it is. */
export function Titled({ title }: { title: string }): null {
  useTitle(title)
  return null
}
