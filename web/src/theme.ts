// Light, dark, or as the system is set. The choice is stored in this browser.
import { useLayoutEffect, useState } from "react"

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
