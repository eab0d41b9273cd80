// What an administrator sees on the page of a tool: its rules that can be changed, and what they mean for a chosen person.
import { useId, useState } from "react"
import { Select } from "../components/Select"
import { Dialog } from "../components/Dialog"
import { useAdministrationText } from "../locales/administration"
import { isServerAdmin, useMe } from "../session/caller"
import { loadTools } from "../state/tools"
import type { AccessAnswer, KeyList, SettingList } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { EntryForm } from "./settings/EntryForm"
import { EntryCard } from "./settings/EntryList"
import { TOOL, TOOL_MAIN_FIELDS } from "./ToolRules"
import "../style/administration.css"

export default function ToolAdministration({ tool, onChanged }: { tool: string; onChanged: () => void }) {
  const a = useAdministrationText()
  const heading = useId()
  const settings = useQuery<SettingList>(isServerAdmin(useMe()) ? `settings?kind=${TOOL}` : null)
  const [round, setRound] = useState(0)
  const refresh = () => {
    settings.refetch()
    setRound(round + 1)
    onChanged()
    void loadTools()
  }
  return (
    <section className="administration" aria-labelledby={heading}>
      <h2 id={heading}>{a("tools.set")}</h2>
      {settings.data && settings.data.forms.length > 0 && <RulesCard settings={settings.data} tool={tool} onChanged={refresh} />}
      <PersonAccess key={round} tool={tool} />
    </section>
  )
}

function RulesCard({ settings, tool, onChanged }: { settings: SettingList; tool: string; onChanged: () => void }) {
  const a = useAdministrationText()
  const [editing, setEditing] = useState(false)
  const entry = settings.settings.find(({ name }) => name === tool) ?? null
  const onSaved = () => {
    setEditing(false)
    onChanged()
  }
  return (
    <>
      {entry ? (
        <ul className="cards">
          <EntryCard entry={entry} label={tool} onEdit={() => setEditing(true)} onChanged={onChanged} />
        </ul>
      ) : (
        <div className="button-row">
          <button onClick={() => setEditing(true)}>{a("tools.change")}</button>
        </div>
      )}
      {editing && (
        <Dialog title={a("editOf", { name: tool })} onClose={() => setEditing(false)}>
          <p className="about">{a("tools.about")}</p>
          <EntryForm kind={TOOL} name={tool} fields={settings.forms[0]!.fields} entry={entry} mainFields={TOOL_MAIN_FIELDS} onSaved={onSaved} onCancel={() => setEditing(false)} />
        </Dialog>
      )}
    </>
  )
}

/** What the rules say for the owner of a key. */
function PersonAccess({ tool }: { tool: string }) {
  const a = useAdministrationText()
  const id = useId()
  const keys = useQuery<KeyList>("keys").data?.keys ?? []
  const [key, setKey] = useState("")
  const { data, problem } = useQuery<AccessAnswer>(key ? `access?tool=${encodeURIComponent(tool)}&key=${encodeURIComponent(key)}` : null)
  if (!keys.length) return null
  return (
    <div className="field">
      <label htmlFor={id}>{a("tools.person")}</label>
      <Select id={id} label={a("tools.person")} value={key} onChange={setKey} options={[{ value: "", label: "–" }, ...keys.map(({ name, user }) => ({ value: name, label: `${user} (${name})` }))]} />
      <div role="status">
        {data && (
          <>
            <p className={data.access.decision === "deny" ? "problem" : "good"}>{a(`keys.${data.access.decision}`, { tool })}</p>
            <p className="about">{a("keys.because", { rule: data.access.rule, reason: data.access.reason })}</p>
          </>
        )}
        {problem && <p className="problem">{problem}</p>}
      </div>
    </div>
  )
}
