// Presets: named settings, chosen for a new conversation, used in an existing one, and saved from it.
import { useId, useState, type FormEvent } from "react"
import { Select } from "../../components/Select"
import { ProblemText } from "../../components/ProblemText"
import { enqueueRequest } from "../../state/requestQueue"
import { requestJson } from "../../wire/http"
import type { Conversation, ConversationAnswer, PresetAnswer, PresetList, PresetSettings, PresetView } from "../../wire/types"
import { useProblem } from "../../wire/useProblem"
import { useQuery } from "../../wire/useQuery"
import { useTranslate } from "../../locales"
import { PresetFiles } from "./PresetFiles"
import { toPresetModel } from "./newSettings"

const MAX_NAME_CHARS = 80

/** Chooses a preset for a new conversation. Nothing is shown if there is none. */
export function PresetPicker({ preset, onChoose }: { preset: PresetView | null; onChoose: (preset: PresetView | null) => void }) {
  const t = useTranslate()
  const { data } = useQuery<PresetList>("presets")
  if (!data?.count) return null
  return (
    <label>
      <span>{t("preset.choose")}</span>
      <PresetSelect presets={data.presets} preset={preset} onChoose={onChoose} />
      {preset && (
        <small>
          {t("preset.tokens", { n: preset.tokens })}
          {preset.files.length > 0 && ` ${t("preset.files", { names: preset.files.map(({ name }) => name).join(", ") })}`}
        </small>
      )}
    </label>
  )
}

interface PresetSelectProps {
  presets: PresetView[]
  preset: PresetView | null
  onChoose: (preset: PresetView | null) => void
}

function PresetSelect({ presets, preset, onChoose }: PresetSelectProps) {
  const t = useTranslate()
  return (
    <Select
      label={t("preset.choose")}
      value={preset ? keyOf(preset) : ""}
      onChange={(key) => onChoose(presets.find((candidate) => keyOf(candidate) === key) ?? null)}
      options={[{ value: "", label: t("preset.none") }, ...presets.map((candidate) => ({ value: keyOf(candidate), label: candidate.shared ? t("preset.by", { name: candidate.name, user: candidate.user }) : candidate.name }))]}
    />
  )
}

interface PresetSectionProps {
  conversation: string
  /** The settings as they are in the form now; the model and the tools are those of the conversation. */
  collect: (conversation: Conversation) => PresetSettings
  /** Called once the conversation has the settings of a preset. */
  onUsed: () => void
}

/** Uses, saves and deletes presets in the settings of a conversation. */
export function PresetSection({ conversation, collect, onUsed }: PresetSectionProps) {
  const t = useTranslate()
  const heading = useId()
  const path = `conversations/${encodeURIComponent(conversation)}`
  const list = useQuery<PresetList>("presets")
  const [chosen, setChosen] = useState<PresetView | null>(null)
  const [name, setName] = useState("")
  const [shared, setShared] = useState(false)
  const [saved, setSaved] = useState(false)
  const [problem, fail, clear] = useProblem()
  const change = async (work: () => Promise<unknown>) => {
    clear()
    setSaved(false)
    try {
      await work()
      list.refetch()
      return true
    } catch (error) {
      fail(error)
      return false
    }
  }
  const choose = (preset: PresetView | null) => {
    setChosen(preset)
    if (!preset?.editable) return
    setName(preset.name) // so that it can be saved again
    setShared(preset.shared)
  }
  const use = async (preset: PresetView) => {
    // The files of a preset reach the model only where the preset is named as the model; its settings come with it.
    const body = preset.files.length ? { model: toPresetModel(preset.name) } : preset.settings
    if (await change(() => enqueueRequest(conversation, () => requestJson("PUT", path, body)))) onUsed()
  }
  const remove = async (preset: PresetView) => {
    if (await change(() => requestJson("DELETE", `presets/${encodeURIComponent(preset.name)}?shared=${preset.shared}`))) setChosen(null)
  }
  const save = async (event: FormEvent) => {
    event.preventDefault()
    const isSaved = await change(async () => {
      // Tools and model may have been changed since the dialog was opened, and a change may be on its way.
      const current = await enqueueRequest(conversation, () => requestJson<ConversationAnswer>("GET", path))
      const settings = mergePreset(collect(current.conversation), list.data?.presets ?? [])
      const answer = await requestJson<PresetAnswer>("PUT", `presets/${encodeURIComponent(name.trim())}`, { settings, shared })
      setChosen(answer.preset) // so that files can be added to it
    })
    setSaved(isSaved)
  }
  return (
    <section className="presets" aria-labelledby={heading}>
      <h3 id={heading}>{t("preset.title")}</h3>
      <p>{t("preset.about")}</p>
      {!!list.data?.count && (
        <div className="preset-line">
          <PresetSelect presets={list.data.presets} preset={chosen} onChoose={choose} />
          <button type="button" disabled={!chosen} onClick={() => chosen && void use(chosen)}>
            {t("preset.use")}
          </button>
          {chosen?.editable && (
            <button type="button" className="quiet" onClick={() => void remove(chosen)}>
              {t("preset.delete")}
            </button>
          )}
        </div>
      )}
      {list.data && chosen?.editable && (
        <PresetFiles
          key={keyOf(chosen)}
          preset={chosen}
          limits={list.data}
          onChanged={(preset) => {
            setChosen(preset)
            list.refetch()
          }}
        />
      )}
      <form className="preset-line" onSubmit={(event) => void save(event)}>
        <input aria-label={t("preset.name")} placeholder={t("preset.name")} required maxLength={MAX_NAME_CHARS} value={name} onChange={(event) => setName(event.target.value)} />
        <label>
          <input type="checkbox" checked={shared} onChange={(event) => setShared(event.target.checked)} /> {t("preset.share")}
        </label>
        <button disabled={!name.trim()}>{t("preset.save")}</button>
      </form>
      <ProblemText text={problem} />
      {saved && <p role="status">{t("preset.saved")}</p>}
    </section>
  )
}

/** Return settings to save. Those of a conversation that names a preset as its model are the preset's, with its own prompt. */
function mergePreset(settings: PresetSettings, presets: PresetView[]): PresetSettings {
  const named = presets.find(({ name }) => settings.model === toPresetModel(name))
  if (!named) return settings
  return { ...named.settings, system_prompt: [named.settings.system_prompt, settings.system_prompt].filter(Boolean).join("\n\n") }
}

/** Return a key of a preset: an own one may have the name of a shared one. */
function keyOf(preset: PresetView): string {
  return `${preset.shared ? "shared" : "own"}/${preset.name}`
}
