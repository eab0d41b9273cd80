// The texts of the page, in the user's language. English is the reference: a key that another locale lacks does not
// compile.
import { createContext, useContext } from "react"
import { de } from "./de"
import { en, type MessageKey } from "./en"
import { zh } from "./zh"

/** The languages in their own words, in the order in which the page's button goes through them. */
export const LANGUAGE_NAMES = { en: "English", de: "Deutsch", zh: "中文" } as const
export type Language = keyof typeof LANGUAGE_NAMES
export type { MessageKey }
export type Translate = (key: MessageKey, values?: Record<string, string | number>) => string

export const MESSAGES: Record<Language, Record<MessageKey, string>> = { en, de, zh }

/** Return a function that looks up a text and fills in its `{name}` placeholders. */
export function createTranslate(language: Language): Translate {
  return (key, values) => fillPlaceholders(MESSAGES[language][key], values)
}

export function fillPlaceholders(text: string, values?: Record<string, string | number>): string {
  return text.replace(/\{(\w+)\}/g, (placeholder, name: string) => String(values?.[name] ?? placeholder))
}

/** Return the language that was chosen in this browser, else the browser's own. */
export function getPreferredLanguage(): Language {
  const stored = localStorage.getItem("toolyard.language")
  return parseLanguage(stored ?? "") ?? parseLanguage(navigator.language) ?? "en"
}

/** Return the language of a tag such as `de-AT`, or undefined if the page does not have it. */
function parseLanguage(tag: string): Language | undefined {
  return (Object.keys(LANGUAGE_NAMES) as Language[]).find((language) => tag.toLowerCase().split("-")[0] === language)
}

export const LocaleContext = createContext<{ language: Language; translate: Translate }>({ language: "en", translate: createTranslate("en") })

export function useTranslate(): Translate {
  return useContext(LocaleContext).translate
}

export function useLanguage(): Language {
  return useContext(LocaleContext).language
}
