import { useTranslate } from "../../locales"
import { useAdministrationText, useOptionalText } from "../../locales/administration"
import type { SettingEntry } from "../../wire/types"
import { summarizeValue } from "./fieldKinds"

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
          <dd>{typeof inner === "boolean" ? t(inner ? "common.yes" : "common.no") : summarizeValue(inner, a("stored"))}</dd>
        </div>
      ))}
    </dl>
  )
}
