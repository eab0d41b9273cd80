// Providers and models: who answers, with which model, how, and for whom.
import { useId } from "react"
import { useAdministrationText } from "../../locales/administration"
import { loadModels, useModels } from "../../state/models"
import type { SettingList } from "../../wire/types"
import { EntryList } from "../settings/EntryList"
import { GeneralEntries } from "../settings/GeneralEntries"
import { useSettings } from "../settings/requests"
import { ProviderCards } from "./ProviderCards"

/** The settings that choose models. */
export const MODEL_SETTINGS = ["model", "models"]

/** `adding` shows the form for a new provider. */
export function Models({ adding }: { adding: boolean }) {
  const a = useAdministrationText()
  const { data, problem, refetch } = useSettings()
  const names = useModels()?.models.map(({ id }) => id) ?? []
  const refresh = () => {
    refetch()
    void loadModels()
  }
  if (!data) return problem ? <p className="problem">{problem}</p> : null
  const listProps = (kind: string) => ({
    kind,
    entries: data.settings.filter((entry) => entry.kind === kind),
    fields: data.forms.find((form) => form.kind === kind)?.fields ?? [],
    nameLabel: a("models.entryName"),
    names,
    onChanged: refresh,
  })
  return (
    <>
      <ProviderCards settings={data} adding={adding} onChanged={refetch} />
      <ModelChoice settings={data} onChanged={refresh} />
      <EntryList {...listProps("model_access")} title={a("models.access")} about={a("models.accessAbout")} />
      <EntryList {...listProps("model_options")} title={a("models.options")} about={a("models.optionsAbout")} />
      {data.secret && <p className="about">{a("models.secret", { source: data.secret })}</p>}
    </>
  )
}

/** The default model with its fallbacks, and the further models, each with whether it can be used. */
function ModelChoice({ settings, onChanged }: { settings: SettingList; onChanged: () => void }) {
  const a = useAdministrationText()
  const heading = useId()
  const models = useModels()
  return (
    <section aria-labelledby={heading}>
      <h2 id={heading}>{a("models.choice")}</h2>
      <p className="about">{a("models.choiceAbout")}</p>
      <GeneralEntries settings={settings} names={MODEL_SETTINGS} onChanged={onChanged} />
      {models && models.models.length > 0 && (
        <details className="card">
          <summary>
            {a("models.available")}: {models.models.length}
          </summary>
          <ul className="model-lines">
            {models.models.map((card) => (
              <li key={card.id}>
                <code>{card.id}</code> {card.default && <span className="pill ok">{a("models.isDefault")}</span>} {!card.available && <small className="problem">{card.reason}</small>}
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  )
}
