import { useEffect, useSyncExternalStore } from "react"

const NAME = "Toolyard"
let waiting = 0
const listeners = new Set<() => void>()

/** Show in the title of every page how many calls wait for the user. */
export function setWaitingInTitle(count: number): void {
  waiting = count
  for (const listener of listeners) listener()
}

/** Set the title of the browser tab while the component is shown. */
export function useTitle(title: string): void {
  const count = useSyncExternalStore(subscribe, () => waiting)
  useEffect(() => {
    const prefix = count ? `(${count}) ` : ""
    const own = prefix + (title ? `${title} · ${NAME}` : NAME)
    document.title = own
    return () => {
      // A page whose code has yet to be loaded has named itself by then: what it replaces goes away later.
      if (document.title === own) document.title = prefix + NAME
    }
  }, [title, count])
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Sets the title as an element, for places that cannot call a hook. */
export function DocumentTitle({ title }: { title: string }): null {
  useTitle(title)
  return null
}
