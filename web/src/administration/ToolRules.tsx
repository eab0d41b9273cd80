// The rules of tools: whether they are on, who may use them, and who approves their calls.
import { useAdministrationText } from "../locales/administration"
import { loadTools, useTools } from "../state/tools"
import { EntryList } from "./settings/EntryList"
import { useSettings } from "./settings/requests"

/** The kind of the settings that hold the rules of a tool. */
export const TOOL = "tool"
/** The rules that are asked for most. */
export const TOOL_MAIN_FIELDS = ["enabled", "approval", "approvers", "roles", "timeout_s"]

export function ToolRules() {
  const a = useAdministrationText()
  const names = [...useTools().keys()]
  const { data, problem, refetch } = useSettings()
  const refresh = () => {
    refetch()
    void loadTools()
  }
  if (!data) return problem ? <p className="problem">{problem}</p> : null
  return (
    <EntryList
      kind={TOOL}
      title={a("tools.title")}
      about={a("tools.about")}
      entries={data.settings.filter(({ kind }) => kind === TOOL)}
      fields={data.forms.find(({ kind }) => kind === TOOL)?.fields ?? []}
      mainFields={TOOL_MAIN_FIELDS}
      nameLabel={a("keys.tool")}
      names={names}
      onChanged={refresh}
    />
  )
}
