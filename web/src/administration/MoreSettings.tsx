// The kinds of settings that have no section of their own, with forms made from the server's descriptions.
import { useAdministrationText, useOptionalText } from "../locales/administration"
import type { SettingList } from "../wire/types"
import { EntryList } from "./settings/EntryList"
import { useSettings } from "./settings/requests"

const WITH_A_SECTION = new Set(["general", "providers", "model_options", "model_access"])

/** Return the kinds of settings that only the section for further settings shows. */
export function listFurtherKinds(settings: SettingList | null): string[] {
  return settings?.forms.map(({ kind }) => kind).filter((kind) => !WITH_A_SECTION.has(kind)) ?? []
}

export function MoreSettings() {
  const a = useAdministrationText()
  const findText = useOptionalText()
  const { data, problem, refetch } = useSettings()
  return (
    <>
      <p className="about">{a("more.about")}</p>
      {problem && !data && <p className="problem">{problem}</p>}
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
            onChanged={refetch}
          />
        ))}
    </>
  )
}
