// Adds or changes a provider: its key and address are tried before they are saved, and one of its models can become the default.
import { useState } from "react"
import { Select } from "../../components/Select"
import { Dialog } from "../../components/Dialog"
import { useAdministrationText } from "../../locales/administration"
import { useModels } from "../../state/models"
import type { SettingEntry, SettingList } from "../../wire/types"
import { EntryForm } from "../settings/EntryForm"
import { FieldInput } from "../settings/FieldInput"
import { saveEntry } from "../settings/requests"
import { ProviderTest } from "./ProviderTest"

const OTHER = "other"

interface ProviderFormProps {
  settings: SettingList
  /** The entry to change; null for a new one. */
  entry: SettingEntry | null
  onSaved: () => void
  onClose: () => void
}

export function ProviderForm({ settings, entry, onSaved, onClose }: ProviderFormProps) {
  const a = useAdministrationText()
  const presets = useModels()?.providers ?? []
  const [preset, setPreset] = useState(entry ? OTHER : "openai")
  const [otherName, setOtherName] = useState(entry?.name ?? "")
  const [listed, setListed] = useState<string[]>([])
  const [model, setModel] = useState("")
  const name = preset === OTHER ? otherName.trim() : preset
  const fields = settings.forms.find(({ kind }) => kind === "providers")?.fields ?? []
  const needsAddress = preset === OTHER || preset === "azure" || preset === "ollama"
  const defaultEntry = settings.settings.find(({ kind, name: setting }) => kind === "general" && setting === "model")
  const mayChooseDefault = !entry && defaultEntry?.source !== "file"
  const finish = async () => {
    // Fallbacks stay: only the first model, which is used, becomes another.
    const fallbacks = Array.isArray(defaultEntry?.value) ? (defaultEntry.value as string[]).slice(1) : []
    if (mayChooseDefault && model.trim()) await saveEntry("general", "model", fallbacks.length ? [`${name}:${model.trim()}`, ...fallbacks] : `${name}:${model.trim()}`, defaultEntry?.version ?? "")
    onSaved()
  }
  const head = !entry && (
    <>
      <div className="field">
        <label htmlFor="provider-preset">{a("models.provider")}</label>
        <Select id="provider-preset" label={a("models.provider")} value={preset} onChange={setPreset} options={[...presets.map(({ name: known }) => ({ value: known, label: known })), { value: OTHER, label: a("models.other") }]} />
      </div>
      {preset === OTHER && <FieldInput label={a("models.otherName")} kind="text" required value={otherName} onChange={(typed) => setOtherName(String(typed ?? ""))} />}
    </>
  )
  return (
    <Dialog title={entry ? a("editOf", { name: entry.name }) : a("models.add")} onClose={onClose}>
      <EntryForm kind="providers" name={name} fields={fields} entry={entry} head={head} mainFields={needsAddress ? ["base_url", "api_key"] : ["api_key"]} disabled={!name} onSaved={finish} onCancel={onClose}>
        {(value) => (
          <>
            <FieldInput label={a(mayChooseDefault ? "models.defaultModel" : "models.tryModel")} hint={a(mayChooseDefault ? "models.defaultHint" : "models.tryHint")} kind="text" choices={listed} value={model} onChange={(typed) => setModel(String(typed ?? ""))} />
            <ProviderTest provider={name} value={value} model={model.trim()} onChecked={(check) => setListed(check.models)} />
          </>
        )}
      </EntryForm>
    </Dialog>
  )
}
