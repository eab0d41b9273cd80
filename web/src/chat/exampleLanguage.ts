import type { Language } from "../locales"

const CHINESE = /\p{Script=Han}/u
/** Words that are common in short German requests and are none in English. */
const GERMAN = /[äöüß]|(?<!\p{L})(der|die|das|den|dem|ein|eine|einen|und|ist|sind|zu|zum|zur|auf|ich|wir|mir|uns|bitte|zeige?|wie|wo|wann|welche[rsmn]?|mein|meine|nicht|mit|von|für|im|schalte|suche|lösche)(?!\p{L})/iu

/**
 * Return whether an example of a tool is in a language of the page. Authors write examples in any language and do not say in
 * which, so this goes by letters and common words; what is neither Chinese nor German counts as English.
 */
export function isInLanguage(example: string, language: Language): boolean {
  if (CHINESE.test(example)) return language === "zh"
  return language === (GERMAN.test(example) ? "de" : "en")
}
