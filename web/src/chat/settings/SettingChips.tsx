import { X } from "lucide-react"
import { useLanguage, useTranslate, type Language, type MessageKey, type Translate } from "../../locales"
import type { Settings } from "../../wire/types"
import { EFFORTS, NO_SETTINGS, applyPreset, getPresetName, type NewSettings } from "./newSettings"

interface Chip {
  key: string
  label: string
  /** Takes the setting back; missing where it can only be changed in the settings. */
  remove?: () => void
}

/** What is set for a conversation, beside its model. A click opens the settings. */
export function SettingChips({ chips, onOpen }: { chips: Chip[]; onOpen: (() => void) | null }) {
  const t = useTranslate()
  if (!chips.length) return null
  return (
    <ul className="chips" aria-label={t("chips.label")}>
      {chips.map(({ key, label, remove }) => (
        <li key={key} className="chip">
          {onOpen ? (
            <button type="button" onClick={onOpen}>
              {label}
            </button>
          ) : (
            <span>{label}</span>
          )}
          {remove && (
            <button type="button" className="icon" aria-label={t("attach.remove", { name: label })} onClick={remove}>
              <X aria-hidden />
            </button>
          )}
        </li>
      ))}
    </ul>
  )
}

/** Return chips for the settings of a new conversation, each of which can be taken back. */
export function useNewChips(settings: NewSettings, onChange: (settings: NewSettings) => void): Chip[] {
  const t = useTranslate()
  const language = useLanguage()
  const { preset, tools, webSearch, thinking, temperature, prompt } = settings
  const reset = (...names: (keyof NewSettings)[]) => onChange({ ...settings, ...Object.fromEntries(names.map((name) => [name, NO_SETTINGS[name]])) })
  return [
    ...(preset ? [{ key: "preset", label: preset.tokens ? t("chip.presetTokens", { name: preset.name, n: preset.tokens }) : t("chip.preset", { name: preset.name }), remove: () => onChange(applyPreset(settings, null)) }] : []),
    ...toChips(t, language, { tools, webSearch, thinking, temperature, prompt }).map((chip) => ({ ...chip, remove: () => reset(chip.key as keyof NewSettings) })),
  ]
}

/** Return chips for the settings of a conversation that has begun. */
export function useChips({ model = "", preset = getPresetName(model), tools = null, web_search = "", options = {}, system_prompt = "" }: Settings): Chip[] {
  const t = useTranslate()
  const language = useLanguage()
  const fields = { tools, webSearch: web_search, thinking: String(options.thinking ?? ""), temperature: String(options.temperature ?? ""), prompt: system_prompt }
  return [...(preset ? [{ key: "preset", label: t("chip.preset", { name: preset }) }] : []), ...toChips(t, language, fields)]
}

function toChips(t: Translate, language: Language, { tools, webSearch, thinking, temperature, prompt }: Pick<NewSettings, "tools" | "thinking" | "temperature" | "prompt"> & { webSearch: string }): Chip[] {
  return [
    ...(tools ? [{ key: "tools", label: t("chip.tools", { n: tools.length }) }] : []),
    ...(webSearch ? [{ key: "webSearch", label: t("chip.search", { mode: t(webSearch === "off" ? "search.off" : "search.auto") }) }] : []),
    ...(thinking ? [{ key: "thinking", label: t("chip.thinking", { effort: EFFORTS.some((effort) => effort === thinking) ? t(`effort.${thinking}` as MessageKey) : thinking }) }] : []),
    ...(temperature ? [{ key: "temperature", label: t("chip.temperature", { value: new Intl.NumberFormat(language).format(Number(temperature)) }) }] : []),
    ...(prompt ? [{ key: "prompt", label: t("settings.prompt") }] : []),
  ]
}
