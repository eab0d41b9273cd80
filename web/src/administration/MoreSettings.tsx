// The settings that have no section of their own, with forms made from the server's descriptions.
import { useAdministrationText, useOptionalText } from "../locales/administration"
import { isServerAdmin, useMe } from "../session/caller"
import type { SettingList } from "../wire/types"
import { COST_KINDS } from "./Costs"
import { MODEL_SETTINGS } from "./models/Models"
import { EntryList } from "./settings/EntryList"
import { GeneralEntries, listGeneralNames } from "./settings/GeneralEntries"
import { useSettings } from "./settings/requests"

const WITH_A_SECTION = new Set(["general", "providers", "model_options", "model_access", "tool", ...COST_KINDS])

function listFurtherKinds(settings: SettingList): string[] {
  return settings.forms.map(({ kind }) => kind).filter((kind) => !WITH_A_SECTION.has(kind))
}

function listFurtherNames(settings: SettingList): string[] {
  return listGeneralNames(settings).filter((name) => !MODEL_SETTINGS.includes(name))
}

/** Return whether the server has settings that only this section shows. */
export function hasMoreSettings(settings: SettingList, ofServer: boolean): boolean {
  if (!ofServer) return settings.count > 0 // those of the administrator's tenant
  return listFurtherKinds(settings).length > 0 || listFurtherNames(settings).length > 0
}

export function MoreSettings() {
  const a = useAdministrationText()
  const findText = useOptionalText()
  const { data, problem, refetch } = useSettings()
  const ofServer = isServerAdmin(useMe())
  return (
    <>
      <p className="about">{a(ofServer ? "more.about" : "about.tenant")}</p>
      {problem && !data && <p className="problem">{problem}</p>}
      {data && ofServer && (
        <section aria-label={a("section.more")}>
          <h2 className="visually-hidden">{a("section.more")}</h2>
          <GeneralEntries settings={data} names={listFurtherNames(data)} onChanged={refetch} />
        </section>
      )}
      {data &&
        listFurtherKinds(data).map((kind) => (
          <EntryList
            key={kind}
            kind={kind}
            title={findText(`kind.${kind}`) ?? a("more.kind", { kind })}
            about={findText(`about.${kind}`) ?? ""}
            entries={data.settings.filter((entry) => entry.kind === kind)}
            fields={data.forms.find((form) => form.kind === kind)?.fields ?? []}
            nameLabel={a("name")}
            names={[]}
            fixed={!ofServer}
            onChanged={refetch}
          />
        ))}
    </>
  )
}
