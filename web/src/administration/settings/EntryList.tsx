// The entries of one kind of setting: a list, and a form to add and change one.
import { Plus } from "lucide-react"
import { useId, useState } from "react"
import { Dialog } from "../../components/Dialog"
import { useAdministrationText } from "../../locales/administration"
import type { SettingEntry, SettingField } from "../../wire/types"
import { EntryFacts, SourcePill } from "./EntryFacts"
import { EntryForm } from "./EntryForm"
import { FieldInput } from "./FieldInput"
import { EntryValue } from "./EntryValue"
import { RemoveDialog } from "./RemoveDialog"
import type { Values } from "./fieldKinds"
import { deleteEntry } from "./requests"

interface EntryListProps {
  kind: string
  title: string
  about: string
  entries: SettingEntry[]
  fields: SettingField[]
  /** What the name of an entry is called, and names to choose from. */
  nameLabel: string
  names: string[]
  /** The fields that are always shown; all are if this is left out. */
  mainFields?: string[]
  initial?: Values
  suggestions?: Record<string, string[]>
  /** Whether entries are changed only, and neither added nor removed. */
  fixed?: boolean
  onChanged: () => void
}

export function EntryList({ kind, title, about, entries, fields, nameLabel, names, mainFields, initial, suggestions, fixed = false, onChanged }: EntryListProps) {
  const a = useAdministrationText()
  const heading = useId()
  const [edited, setEdited] = useState<SettingEntry | "new" | null>(null)
  const onSaved = () => {
    setEdited(null)
    onChanged()
  }
  return (
    <section aria-labelledby={heading}>
      <header className="section-head">
        <h2 id={heading}>{title}</h2>
        {!fixed && (
          <button onClick={() => setEdited("new")}>
            <Plus aria-hidden /> {a("add")}
          </button>
        )}
      </header>
      <p className="about">{about}</p>
      {entries.length === 0 && <p className="empty">{a("none")}</p>}
      <ul className="cards">
        {entries.map((entry) => (
          <EntryCard key={entry.name} entry={entry} label={entry.name} fixed={fixed} onEdit={() => setEdited(entry)} onChanged={onChanged} />
        ))}
      </ul>
      {edited && <EntryDialog kind={kind} title={edited === "new" ? title : a("editOf", { name: edited.name })} fields={fields} entry={edited === "new" ? null : edited} nameLabel={nameLabel} names={names} mainFields={mainFields} initial={initial} suggestions={suggestions} onSaved={onSaved} onClose={() => setEdited(null)} />}
    </section>
  )
}

interface EntryCardProps {
  entry: SettingEntry
  label: string
  /** Whether the entry is not removed here. */
  fixed?: boolean
  onEdit: () => void
  onChanged: () => void
}

export function EntryCard({ entry, label, fixed = false, onEdit, onChanged }: EntryCardProps) {
  const a = useAdministrationText()
  const [removing, setRemoving] = useState(false)
  const remove = async () => {
    await deleteEntry(entry)
    setRemoving(false)
    onChanged()
  }
  return (
    <li className="card">
      <header>
        <h3>{label}</h3>
        <SourcePill entry={entry} />
        <span className="grow" />
        {entry.source === "store" && (
          <span className="actions">
            <button aria-label={a("editOf", { name: label })} onClick={onEdit}>
              {a("edit")}
            </button>
            {!fixed && (
              <button className="quiet" aria-label={a("removeOf", { name: label })} onClick={() => setRemoving(true)}>
                {a("remove")}
              </button>
            )}
          </span>
        )}
      </header>
      <EntryValue entry={entry} />
      <EntryFacts entry={entry} onChanged={onChanged} />
      {removing && <RemoveDialog title={a("removeConfirm", { name: label })} action={a("remove")} remove={remove} onClose={() => setRemoving(false)} />}
    </li>
  )
}

interface EntryDialogProps {
  kind: string
  title: string
  fields: SettingField[]
  entry: SettingEntry | null
  nameLabel: string
  names: string[]
  mainFields?: string[] | undefined
  initial?: Values | undefined
  suggestions?: Record<string, string[]> | undefined
  onSaved: () => void
  onClose: () => void
}

export function EntryDialog({ kind, title, fields, entry, nameLabel, names, mainFields, initial, suggestions, onSaved, onClose }: EntryDialogProps) {
  const [name, setName] = useState(entry?.name ?? "")
  const head = !entry && <FieldInput label={nameLabel} kind="text" choices={names} required value={name} onChange={(typed) => setName(String(typed ?? ""))} />
  return (
    <Dialog title={title} onClose={onClose}>
      <EntryForm kind={kind} name={name.trim()} fields={fields} entry={entry} head={head} mainFields={mainFields} initial={initial} suggestions={suggestions} disabled={!name.trim()} onSaved={onSaved} onCancel={onClose} />
    </Dialog>
  )
}
