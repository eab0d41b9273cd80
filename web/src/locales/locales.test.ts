import { describe, expect, test } from "vitest"
import { LANGUAGE_NAMES, MESSAGES } from "."
import { ADMINISTRATION_MESSAGES } from "./administration"
import { USAGE_MESSAGES } from "./usage"

const placeholders = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort()

const languages = Object.keys(LANGUAGE_NAMES) as (keyof typeof LANGUAGE_NAMES)[]

describe.each([
  ["the page", MESSAGES as Record<string, Record<string, string>>],
  ["administration", ADMINISTRATION_MESSAGES as Record<string, Record<string, string>>],
  ["usage", USAGE_MESSAGES as Record<string, Record<string, string>>],
])("of %s", (_, messages) => {
  test.each(languages)("%s has every text, with the placeholders of the English one", (language) => {
    const [english, translated] = [messages["en"]!, messages[language]!]
    expect(Object.keys(translated).sort()).toEqual(Object.keys(english).sort())
    for (const [key, text] of Object.entries(english)) {
      expect(translated[key], key).not.toBe("")
      expect(placeholders(translated[key]!), key).toEqual(placeholders(text))
    }
  })
})
