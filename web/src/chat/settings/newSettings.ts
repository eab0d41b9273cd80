// The settings of a conversation that is about to begin, as the composer collects them. Pure.
import type { Options, PresetSettings, PresetView } from "../../wire/types"

export const EFFORTS = ["minimal", "low", "medium", "high", "xhigh"] as const
/** In a list of tools: every tool that the user may use. */
const ALL_TOOLS = "*"
const PRESET_PREFIX = "preset:"
export type WebSearch = "" | "auto" | "off"

export interface NewSettings {
  /** Empty if the server's default answers. */
  model: string
  preset: PresetView | null
  /** The names of the tools; null if those of the server's default are used. */
  tools: string[] | null
  webSearch: WebSearch
  thinking: string
  temperature: string
  prompt: string
}

export const NO_SETTINGS: NewSettings = { model: "", preset: null, tools: null, webSearch: "", thinking: "", temperature: "", prompt: "" }

/**
 * Return the settings with those of a preset, which can still be changed beside it. A preset that holds files is named as the
 * model, as only then its files reach the model; it brings its own prompt, options and tools with it.
 */
export function applyPreset(settings: NewSettings, preset: PresetView | null): NewSettings {
  if (!preset) return { ...NO_SETTINGS, webSearch: settings.webSearch }
  if (preset.files.length) return { ...NO_SETTINGS, webSearch: settings.webSearch, preset, model: toPresetModel(preset.name) }
  const { model, tools, system_prompt, options } = preset.settings
  return { ...settings, preset, model, tools: tools.includes(ALL_TOOLS) ? null : tools, prompt: system_prompt, temperature: String(options.temperature ?? ""), thinking: String(options.thinking ?? "") }
}

/** Return the settings with another model. A preset that holds files is the model itself, so another one takes its place. */
export function applyModel(settings: NewSettings, model: string): NewSettings {
  return settings.preset?.files.length ? { ...NO_SETTINGS, webSearch: settings.webSearch, model } : { ...settings, model }
}

/** Return the body with which a conversation of these settings is created. What is not set is left to the server. */
export function toNewConversation(settings: NewSettings): Record<string, unknown> & Partial<PresetSettings> {
  const { preset, tools, webSearch, prompt } = settings
  const base = preset && !preset.files.length ? preset.settings : null
  const options = toOptions(base?.options ?? {}, settings)
  return {
    ...base,
    model: settings.model,
    system_prompt: prompt,
    ...(Object.keys(options).length ? { options } : {}),
    ...(tools ? { tools } : base ? { tools: [ALL_TOOLS] } : {}),
    ...(webSearch ? { web_search: webSearch } : {}),
  }
}

/** Return options with the temperature and the effort of a form, in which empty means that the provider decides. */
export function toOptions(before: Options, { temperature, thinking }: Pick<NewSettings, "temperature" | "thinking">): Options {
  const { temperature: _, thinking: __, ...others } = before
  return { ...others, ...(temperature === "" ? {} : { temperature: Number(temperature) }), ...(thinking ? { thinking: thinking as NonNullable<Options["thinking"]> } : {}) }
}

/** Return the name under which a preset is chosen as a model. */
export function toPresetModel(preset: string): string {
  return PRESET_PREFIX + preset
}

/** Return the preset that is chosen as a model; empty if it is a model. */
export function getPresetName(model: string): string {
  return model.startsWith(PRESET_PREFIX) ? model.slice(PRESET_PREFIX.length) : ""
}
