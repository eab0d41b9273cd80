// The settings of a conversation before its first message, in one dialog.
import { Dialog } from "../../components/Dialog"
import { useTranslate } from "../../locales"
import { useTools } from "../../state/tools"
import { MyInstructions } from "./MyInstructions"
import { PresetPicker } from "./Presets"
import { SettingFields } from "./SettingFields"
import { ToolChoices } from "./ToolChoices"
import { applyPreset, type NewSettings } from "./newSettings"
import { useMaySearch } from "./useMaySearch"

interface NewChatSettingsProps {
  settings: NewSettings
  onChange: (settings: NewSettings) => void
  onClose: () => void
}

export default function NewChatSettings({ settings, onChange, onClose }: NewChatSettingsProps) {
  const t = useTranslate()
  const tools = useTools()
  const maySearch = useMaySearch(settings.model)
  const names = [...tools.keys()]
  const isOn = (name: string) => settings.tools?.includes(name) ?? true
  const change = (keys: string[], on: boolean) => {
    const chosen = names.filter((name) => (keys.includes(name) ? on : isOn(name)))
    onChange({ ...settings, tools: chosen.length === names.length ? null : chosen })
  }
  return (
    <Dialog title={t("settings.new")} onClose={onClose}>
      <div className="settings-form">
        <PresetPicker preset={settings.preset} onChoose={(preset) => onChange(applyPreset(settings, preset))} />
        {!settings.preset?.files.length && <SettingFields values={settings} maySearch={maySearch} onChange={(changed) => onChange({ ...settings, ...changed })} />}
      </div>
      {!settings.preset?.files.length && (
        <details className="settings-group">
          <summary>{t("nav.tools")}</summary>
          <ToolChoices tools={[...tools.values()].map(({ name, title, description, server_id }) => ({ key: name, name, title, description: description.split("\n")[0]!, server: server_id === "function" ? "" : server_id }))} isOn={isOn} onChange={change} />
        </details>
      )}
      <details className="settings-group">
        <summary>{t("instructions.title")}</summary>
        <MyInstructions />
      </details>
      <footer>
        <button className="primary" onClick={onClose}>
          {t("common.done")}
        </button>
      </footer>
    </Dialog>
  )
}
