// Fields that the settings of a new conversation and those of an existing one have in common.
import { useId } from "react"
import { Select } from "../../components/Select"
import { useTranslate, type MessageKey } from "../../locales"
import { EFFORTS, type NewSettings, type WebSearch } from "./newSettings"

type Fields = Pick<NewSettings, "prompt" | "temperature" | "thinking" | "webSearch">

interface SettingFieldsProps {
  values: Fields
  onChange: (change: Partial<Fields>) => void
  /** Whether a search of the web can run; else it is not offered. */
  maySearch: boolean
  problems?: Record<string, string>
}

export function SettingFields({ values, onChange, maySearch, problems = {} }: SettingFieldsProps) {
  const t = useTranslate()
  const id = useId()
  return (
    <>
      <label>
        <span>{t("settings.prompt")}</span>
        <textarea rows={3} maxLength={100_000} value={values.prompt} onChange={(event) => onChange({ prompt: event.target.value })} />
      </label>
      <div className="settings-numbers">
        <label>
          <span>{t("settings.thinking")}</span>
          <Select label={t("settings.thinking")} value={values.thinking} onChange={(thinking) => onChange({ thinking })} options={[{ value: "", label: t("settings.byProvider") }, ...EFFORTS.map((effort) => ({ value: effort, label: t(`effort.${effort}`) }))]} />
        </label>
        <label>
          <span>{t("settings.temperature")}</span>
          <input type="number" min={0} max={2} step={0.1} placeholder={t("settings.byProvider")} aria-describedby={problems["temperature"] ? id : undefined} value={values.temperature} onChange={(event) => onChange({ temperature: event.target.value })} />
          {problems["temperature"] && (
            <small id={id} className="problem">
              {problems["temperature"]}
            </small>
          )}
        </label>
        {maySearch && (
          <label>
            <span>{t("settings.search")}</span>
            <Select<WebSearch> label={t("settings.search")} value={values.webSearch} onChange={(webSearch) => onChange({ webSearch })} options={(["", "auto", "off"] as const).map((mode) => ({ value: mode, label: t(`search.${mode || "default"}` as MessageKey) }))} />
          </label>
        )}
      </div>
    </>
  )
}
