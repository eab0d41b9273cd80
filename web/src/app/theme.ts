// Light, dark, or as the system is set. The choice is stored in this browser.
import { useLayoutEffect, useState, useSyncExternalStore } from "react"

export type Theme = "system" | "light" | "dark"

export function useTheme(): { theme: Theme; setTheme: (theme: Theme) => void } {
  const [theme, setTheme] = useState<Theme>(() => {
    const stored = localStorage.getItem("toolyard.theme")
    return stored === "light" || stored === "dark" ? stored : "system"
  })
  useLayoutEffect(() => {
    if (theme === "system") {
      delete document.documentElement.dataset["theme"]
      localStorage.removeItem("toolyard.theme")
    } else {
      document.documentElement.dataset["theme"] = theme
      localStorage.setItem("toolyard.theme", theme)
    }
  }, [theme])
  return { theme, setTheme }
}

const systemIsDark = matchMedia("(prefers-color-scheme: dark)")

/** Return whether the page is dark, by the user's choice or the system's. */
export function useIsDark(): boolean {
  return useSyncExternalStore(subscribe, () => (document.documentElement.dataset["theme"] ?? (systemIsDark.matches ? "dark" : "light")) === "dark")
}

function subscribe(listener: () => void): () => void {
  const observer = new MutationObserver(listener)
  observer.observe(document.documentElement, { attributeFilter: ["data-theme"] })
  systemIsDark.addEventListener("change", listener)
  return () => {
    observer.disconnect()
    systemIsDark.removeEventListener("change", listener)
  }
}
