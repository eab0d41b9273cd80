import { expect, test } from "vitest"
import type { PresetView } from "../../wire/types"
import { NO_SETTINGS, applyModel, applyPreset, getPresetName, toNewConversation } from "./newSettings"

const PRESET: PresetView = {
  name: "Verses",
  user: "ann",
  shared: false,
  editable: true,
  files: [],
  tokens: 5,
  settings: { system_prompt: "Answer in verse.", model: "m", max_turns: 3, max_tokens: 0, max_messages: 0, options: { temperature: 0.5, seed: 7 }, tools: ["stock"] },
}

test("what is not set is left to the server", () => {
  expect(toNewConversation(NO_SETTINGS)).toEqual({ model: "", system_prompt: "" })
  expect(toNewConversation({ ...NO_SETTINGS, tools: [], webSearch: "off", thinking: "high", temperature: "0" })).toEqual({ model: "", system_prompt: "", tools: [], web_search: "off", options: { thinking: "high", temperature: 0 } })
})

test("a preset fills the form, and what is changed beside it wins", () => {
  const chosen = applyPreset({ ...NO_SETTINGS, webSearch: "auto" }, PRESET)
  expect(chosen).toMatchObject({ model: "m", tools: ["stock"], prompt: "Answer in verse.", temperature: "0.5", webSearch: "auto" })
  expect(toNewConversation({ ...chosen, temperature: "", prompt: "Be brief." })).toMatchObject({ system_prompt: "Be brief.", max_turns: 3, options: { seed: 7 }, tools: ["stock"], web_search: "auto" })
  expect(toNewConversation({ ...chosen, tools: null })).toMatchObject({ tools: ["*"] })
  expect(applyModel(chosen, "n")).toEqual({ ...chosen, model: "n" })
  expect(applyPreset(chosen, null)).toEqual({ ...NO_SETTINGS, webSearch: "auto" })
})

test("a preset with files is named as the model, until another model is chosen", () => {
  const chosen = applyPreset(NO_SETTINGS, { ...PRESET, files: [{ name: "handbook.md", bytes: 9, tokens: 3 }] })
  expect(toNewConversation(chosen)).toEqual({ model: "preset:Verses", system_prompt: "" })
  expect(applyModel({ ...chosen, webSearch: "off" }, "m")).toEqual({ ...NO_SETTINGS, webSearch: "off", model: "m" })
  expect([getPresetName("preset:Verses"), getPresetName("m")]).toEqual(["Verses", ""])
})
