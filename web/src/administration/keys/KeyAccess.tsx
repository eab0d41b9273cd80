// Which rule lets the owner of a key use a tool, or keeps it from them.
import { useState } from "react"
import { Dialog } from "../../components/Dialog"
import { useAdministrationText } from "../../locales/administration"
import { useTools } from "../../state/tools"
import type { AccessAnswer, KeyView } from "../../wire/types"
import { useQuery } from "../../wire/useQuery"

export function KeyAccess({ keyView, onClose }: { keyView: KeyView; onClose: () => void }) {
  const a = useAdministrationText()
  const names = [...useTools().keys()]
  const [chosen, setChosen] = useState("")
  const tool = chosen || names[0] || ""
  const { data, problem } = useQuery<AccessAnswer>(tool ? `access?tool=${encodeURIComponent(tool)}&key=${encodeURIComponent(keyView.name)}` : null)
  return (
    <Dialog title={a("keys.accessOf", { name: keyView.name })} onClose={onClose}>
      {names.length === 0 && <p className="empty">{a("keys.noTools")}</p>}
      {names.length > 0 && (
        <div className="field">
          <label htmlFor="access-tool">{a("keys.tool")}</label>
          <select id="access-tool" value={tool} onChange={(event) => setChosen(event.target.value)}>
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </div>
      )}
      <div role="status">
        {data && (
          <>
            <p className={data.access.decision === "deny" ? "problem" : "good"}>{a(`keys.${data.access.decision}`, { tool })}</p>
            <p className="about">{a("keys.because", { rule: data.access.rule, reason: data.access.reason })}</p>
          </>
        )}
      </div>
      {problem && <p className="problem">{problem}</p>}
    </Dialog>
  )
}
