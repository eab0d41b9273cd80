import { useTranslate } from "../../locales"
import { useAdministrationText, useOptionalText } from "../../locales/administration"
import type { SettingEntry } from "../../wire/types"
import { summarizeValue } from "./fieldKinds"

const isTable = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value)

/** Return a table under the page's names of its fields, where it has some. */
function nameFields(table: Record<string, unknown>, findText: (field: string) => string | null | undefined): Record<string, unknown> {
  return Object.fromEntries(Object.entries(table).map(([field, value]) => [findText(field) ?? field, value]))
}

/** The value of an entry in few words: each field that is set, under its name. */
export function EntryValue({ entry }: { entry: SettingEntry }) {
  const t = useTranslate()
  const a = useAdministrationText()
  const findText = useOptionalText()
  const { value } = entry
  const kind = entry.kind === "general" ? entry.name : entry.kind
  if (typeof value !== "object" || value === null || Array.isArray(value)) return <p className="value">{summarizeValue(value, a("stored"))}</p>
  return (
    <dl className="value-lines">
      {Object.entries(value).map(([name, inner]) => (
        <div key={name}>
          <dt>{findText(`field.${kind}.${name}`) ?? name}</dt>
          <dd>{isTable(inner) ? summarizeValue(nameFields(inner, (field) => findText(`field.${name}.${field}`)), a("stored")) : typeof inner === "boolean" ? t(inner ? "common.yes" : "common.no") : (findText(`choice.${kind}.${name}.${String(inner)}`) ?? summarizeValue(inner, a("stored")))}</dd>
        </div>
      ))}
    </dl>
  )
}
