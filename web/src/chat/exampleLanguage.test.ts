import { expect, test } from "vitest"
import { isInLanguage } from "./exampleLanguage"

test("an example belongs to one language of the page", () => {
  const examples = { en: ["add milk to the groceries", "show tasks"], de: ["Wie warm ist es?", "schalte das Licht aus", "Milch für morgen"], zh: ["把牛奶加到购物清单"] } as const
  for (const [language, texts] of Object.entries(examples))
    for (const text of texts) expect((["en", "de", "zh"] as const).filter((one) => isInLanguage(text, one))).toEqual([language])
})
