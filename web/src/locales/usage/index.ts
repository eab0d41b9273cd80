// The texts about usage, costs and budgets. They are apart from the others, so that a first visit does not load them.
import { fillPlaceholders, useLanguage, type Language } from ".."
import { de } from "./de"
import { en, type UsageKey } from "./en"
import { zh } from "./zh"

export const USAGE_MESSAGES: Record<Language, Record<UsageKey, string>> = { en, de, zh }
export type UsageText = (key: UsageKey, values?: Record<string, string | number>) => string

/** Return a function that looks up a text about usage, in a language. */
export function createUsageText(language: Language): UsageText {
  return (key, values) => fillPlaceholders(USAGE_MESSAGES[language][key], values)
}

export function useUsageText(): UsageText {
  return createUsageText(useLanguage())
}
