// The texts of the page, in the user's language. English is the reference: a key that another locale lacks does not
// compile.
import { createContext, useContext } from "react"
import { en, type MessageKey } from "./en"
import { zh } from "./zh"

export type Language = "en" | "zh"
export type { MessageKey }
export type Translate = (key: MessageKey, values?: Record<string, string | number>) => string

const MESSAGES: Record<Language, Record<MessageKey, string>> = { en, zh }

/** Return a function that looks up a text and fills in its `{name}` placeholders. */
export function createTranslate(language: Language): Translate {
  return (key, values) => MESSAGES[language][key].replace(/\{(\w+)\}/g, (placeholder, name: string) => String(values?.[name] ?? placeholder))
}

/** Return the language that was chosen in this browser, else the browser's own. */
export function getPreferredLanguage(): Language {
  const stored = localStorage.getItem("toolyard.language")
  if (stored === "en" || stored === "zh") return stored
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en"
}

export const LocaleContext = createContext<{ language: Language; translate: Translate }>({ language: "en", translate: createTranslate("en") })

export function useTranslate(): Translate {
  return useContext(LocaleContext).translate
}

export function useLanguage(): Language {
  return useContext(LocaleContext).language
}
