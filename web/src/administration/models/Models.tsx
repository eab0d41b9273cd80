// Providers and models: who answers, with which model, how, and for whom.
import { useId, useState } from "react"
import { Dialog } from "../../components/Dialog"
import { useAdministrationText, useOptionalText } from "../../locales/administration"
import { loadModels, useModels } from "../../state/models"
import type { SettingEntry, SettingField, SettingList } from "../../wire/types"
import { EntryForm } from "../settings/EntryForm"
import { EntryCard, EntryList } from "../settings/EntryList"
import { useSettings } from "../settings/requests"
import { ProviderCards } from "./ProviderCards"

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
  const findText = useOptionalText()
  const heading = useId()
  const models = useModels()
  const [edited, setEdited] = useState<SettingField | null>(null)
  const findEntry = (name: string): SettingEntry | null => settings.settings.find((entry) => entry.kind === "general" && entry.name === name) ?? null
  const fields = settings.forms.find(({ kind }) => kind === "general")?.fields.filter(({ name }) => name === "model" || name === "models") ?? []
  const nameField = ({ name }: SettingField) => findText(`field.general.${name}`) ?? name
  const onSaved = () => {
    setEdited(null)
    onChanged()
  }
  return (
    <section aria-labelledby={heading}>
      <h2 id={heading}>{a("models.choice")}</h2>
      <p className="about">{a("models.choiceAbout")}</p>
      <ul className="cards">
        {fields.map((field) => {
          const entry = findEntry(field.name)
          return entry ? (
            <EntryCard key={field.name} entry={entry} label={nameField(field)} onEdit={() => setEdited(field)} onChanged={onChanged} />
          ) : (
            <li className="card" key={field.name}>
              <header>
                <h3>{nameField(field)}</h3>
                <span className="grow" />
                <button aria-label={a("editOf", { name: nameField(field) })} onClick={() => setEdited(field)}>
                  {a("edit")}
                </button>
              </header>
              <p className="empty">{a("none")}</p>
            </li>
          )
        })}
      </ul>
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
      {edited && (
        <Dialog title={nameField(edited)} onClose={() => setEdited(null)}>
          <EntryForm kind="general" name={edited.name} fields={[edited]} entry={findEntry(edited.name)} onSaved={onSaved} onCancel={() => setEdited(null)} />
        </Dialog>
      )}
    </section>
  )
}
