// The providers: those with settings, and those that models use without any, with a key of the environment.
import { Plus } from "lucide-react"
import { useId, useState } from "react"
import { navigate } from "../../app/route"
import { useAdministrationText } from "../../locales/administration"
import { loadModels } from "../../state/models"
import type { ProviderList, ProviderView, SettingEntry, SettingList } from "../../wire/types"
import { useQuery } from "../../wire/useQuery"
import { EntryFacts, SourcePill } from "../settings/EntryFacts"
import { EntryValue } from "../settings/EntryValue"
import { FieldInput } from "../settings/FieldInput"
import { RemoveDialog } from "../settings/RemoveDialog"
import { deleteEntry } from "../settings/requests"
import { ProviderForm } from "./ProviderForm"
import { ProviderTest } from "./ProviderTest"

/** Toolyard's own models, such as the offline one, are no provider that could be set. */
const OWN_PROVIDER = "toolyard"

interface ProviderCardsProps {
  settings: SettingList
  /** Whether the form for a new provider is shown. */
  adding: boolean
  onChanged: () => void
}

export function ProviderCards({ settings, adding, onChanged }: ProviderCardsProps) {
  const a = useAdministrationText()
  const heading = useId()
  const used = useQuery<ProviderList>("providers")
  const [edited, setEdited] = useState<SettingEntry | null>(null)
  const entries = settings.settings.filter(({ kind }) => kind === "providers")
  const withoutEntry = used.data?.providers.filter(({ id }) => id !== OWN_PROVIDER && !entries.some(({ name }) => name === id)) ?? []
  const close = () => {
    setEdited(null)
    if (adding) navigate("administration", "models")
  }
  const refresh = () => {
    close()
    used.refetch()
    void loadModels()
    onChanged()
  }
  return (
    <section aria-labelledby={heading}>
      <header className="section-head">
        <h2 id={heading}>{a("models.providers")}</h2>
        <button className="primary" onClick={() => navigate("administration", "models/add")}>
          <Plus aria-hidden /> {a("models.add")}
        </button>
      </header>
      <p className="about">{a("models.providersAbout")}</p>
      {used.data && !entries.length && !withoutEntry.length && <p className="empty">{a("models.noProviders")}</p>}
      <ul className="cards">
        {entries.map((entry) => (
          <ProviderCard key={entry.name} name={entry.name} entry={entry} onEdit={() => setEdited(entry)} onChanged={refresh} />
        ))}
        {withoutEntry.map((provider) => (
          <ProviderCard key={provider.id} name={provider.id} provider={provider} onChanged={refresh} />
        ))}
      </ul>
      {(edited || adding) && <ProviderForm settings={settings} entry={edited} onSaved={refresh} onClose={close} />}
    </section>
  )
}

interface ProviderCardProps {
  name: string
  entry?: SettingEntry
  provider?: ProviderView
  onEdit?: () => void
  onChanged: () => void
}

function ProviderCard({ name, entry, provider, onEdit, onChanged }: ProviderCardProps) {
  const a = useAdministrationText()
  const [removing, setRemoving] = useState(false)
  const [testing, setTesting] = useState(false)
  const [model, setModel] = useState("")
  const remove = async () => {
    if (entry) await deleteEntry(entry)
    setRemoving(false)
    onChanged()
  }
  return (
    <li className="card">
      <header>
        <h3>{name}</h3>
        {entry ? <SourcePill entry={entry} /> : <span className="pill">{a("fromEnvironment")}</span>}
        <span className="grow" />
        <span className="actions">
          <button aria-label={a("testOf", { name })} aria-expanded={testing} onClick={() => setTesting(!testing)}>
            {a("test")}
          </button>
          {entry?.source === "store" && (
            <>
              <button aria-label={a("editOf", { name })} onClick={onEdit}>
                {a("edit")}
              </button>
              <button className="quiet" aria-label={a("removeOf", { name })} onClick={() => setRemoving(true)}>
                {a("remove")}
              </button>
            </>
          )}
        </span>
      </header>
      {entry ? <EntryValue entry={entry} /> : <p className="value">{provider?.config.models.all.join(", ")}</p>}
      {entry && <EntryFacts entry={entry} onChanged={onChanged} />}
      {testing && (
        <div className="entry-form">
          <FieldInput label={a("models.tryModel")} hint={a("models.tryHint")} kind="text" choices={provider?.config.models.all ?? []} value={model} onChange={(typed) => setModel(String(typed ?? ""))} />
          <ProviderTest provider={name} model={model.trim()} />
        </div>
      )}
      {removing && <RemoveDialog title={a("removeConfirm", { name })} action={a("remove")} remove={remove} onClose={() => setRemoving(false)} />}
    </li>
  )
}
