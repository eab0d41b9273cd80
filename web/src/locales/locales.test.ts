import { expect, test } from "vitest"
import { LANGUAGE_NAMES, MESSAGES } from "."

const placeholders = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort()

test.each(Object.keys(LANGUAGE_NAMES) as (keyof typeof LANGUAGE_NAMES)[])("%s has every text, with the placeholders of the English one", (language) => {
  expect(Object.keys(MESSAGES[language]).sort()).toEqual(Object.keys(MESSAGES.en).sort())
  for (const [key, text] of Object.entries(MESSAGES.en)) {
    const translated = MESSAGES[language][key as keyof typeof MESSAGES.en]
    expect(translated, key).not.toBe("")
    expect(placeholders(translated), key).toEqual(placeholders(text))
  }
})
