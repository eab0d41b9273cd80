// The texts of the administration. They are apart from the others, so that a first visit does not load them.
import { fillPlaceholders, useLanguage, type Language } from ".."
import { de } from "./de"
import { en, type AdministrationKey } from "./en"
import { zh } from "./zh"

export const ADMINISTRATION_MESSAGES: Record<Language, Record<AdministrationKey, string>> = { en, de, zh }
export type AdministrationText = (key: AdministrationKey, values?: Record<string, string | number>) => string

/** Return a function that looks up a text of the administration. */
export function useAdministrationText(): AdministrationText {
  const messages = ADMINISTRATION_MESSAGES[useLanguage()]
  return (key, values) => fillPlaceholders(messages[key], values)
}

/** Return a function that looks up a text by a name that the server made, or returns undefined if the page has none. */
export function useOptionalText(): (key: string) => string | undefined {
  const messages: Record<string, string> = ADMINISTRATION_MESSAGES[useLanguage()]
  return (key) => (Object.hasOwn(messages, key) ? messages[key] : undefined)
}
