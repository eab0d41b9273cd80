// Settings that have a name of their own, such as the default model: a card for each, whether it is set or not.
import { useState } from "react"
import { Dialog } from "../../components/Dialog"
import { useAdministrationText, useOptionalText } from "../../locales/administration"
import type { SettingEntry, SettingField, SettingList } from "../../wire/types"
import { EntryForm } from "./EntryForm"
import { EntryCard } from "./EntryList"

const GENERAL = "general"

/** Return the names of the settings that are no entries of a table. */
export function listGeneralNames(settings: SettingList | null): string[] {
  return settings?.forms.find(({ kind }) => kind === GENERAL)?.fields.map(({ name }) => name) ?? []
}

interface GeneralEntriesProps {
  settings: SettingList
  names: string[]
  onChanged: () => void
}

export function GeneralEntries({ settings, names, onChanged }: GeneralEntriesProps) {
  const a = useAdministrationText()
  const findText = useOptionalText()
  const [edited, setEdited] = useState<SettingField | null>(null)
  const findEntry = (name: string): SettingEntry | null => settings.settings.find((entry) => entry.kind === GENERAL && entry.name === name) ?? null
  const fields: SettingField[] = settings.forms.find(({ kind }) => kind === GENERAL)?.fields.filter(({ name }) => names.includes(name)) ?? []
  const nameField = ({ name }: SettingField) => findText(`field.general.${name}`) ?? name
  const onSaved = () => {
    setEdited(null)
    onChanged()
  }
  return (
    <>
      <ul className="cards">
        {fields.map((field) => {
          const entry = findEntry(field.name)
          const label = nameField(field)
          return entry ? (
            <EntryCard key={field.name} entry={entry} label={label} onEdit={() => setEdited(field)} onChanged={onChanged} />
          ) : (
            <li className="card" key={field.name}>
              <header>
                <h3>{label}</h3>
                <span className="grow" />
                <button aria-label={a("editOf", { name: label })} onClick={() => setEdited(field)}>
                  {a("edit")}
                </button>
              </header>
              <p className="empty">{a("none")}</p>
            </li>
          )
        })}
      </ul>
      {edited && (
        <Dialog title={nameField(edited)} onClose={() => setEdited(null)}>
          <EntryForm kind={GENERAL} name={edited.name} fields={edited.fields.length ? edited.fields : [edited]} entry={findEntry(edited.name)} onSaved={onSaved} onCancel={() => setEdited(null)} />
        </Dialog>
      )}
    </>
  )
}
