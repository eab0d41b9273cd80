import { useEffect } from "react"

const NAME = "Toolyard"

/** Set the title of the browser tab while the component is shown. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · ${NAME}` : NAME
    return () => {
      document.title = NAME
    }
  }, [title])
}

/** Sets the title as an element, for places that cannot call a hook. */
export function DocumentTitle({ title }: { title: string }): null {
  useTitle(title)
  return null
}
