// The bar at the top of a phone: a page may show its own title and menu there, so that no second row is needed.
import { createContext, useContext, useSyncExternalStore } from "react"

export const TopbarContext = createContext<HTMLElement | null>(null)

const PHONE = "(max-width: 760px)"

/** Return the element of the bar to render into on a phone; null on wider screens, where there is no bar. */
export function useTopbar(): HTMLElement | null {
  const element = useContext(TopbarContext)
  return useSyncExternalStore(subscribe, () => matchMedia(PHONE).matches) ? element : null
}

function subscribe(listener: () => void): () => void {
  const query = matchMedia(PHONE)
  query.addEventListener("change", listener)
  return () => query.removeEventListener("change", listener)
}
