// Which rule lets the owner of a key use a tool, or keeps it from them.
import { useState, type FormEvent } from "react"
import { Dialog } from "../../components/Dialog"
import { ProblemText } from "../../components/ProblemText"
import { useAdministrationText } from "../../locales/administration"
import { useTools } from "../../state/tools"
import type { AccessAnswer, KeyView } from "../../wire/types"
import { useQuery } from "../../wire/useQuery"
import { FieldInput } from "../settings/FieldInput"

export function KeyAccess({ keyView, onClose }: { keyView: KeyView; onClose: () => void }) {
  const a = useAdministrationText()
  // The administrator's own tools are suggestions: the key may be for others, so that any name can be written.
  const names = [...useTools().keys()]
  const [typed, setTyped] = useState("")
  const [tool, setTool] = useState("")
  const { data, problem } = useQuery<AccessAnswer>(tool ? `access?tool=${encodeURIComponent(tool)}&key=${encodeURIComponent(keyView.name)}` : null)
  const ask = (event: FormEvent) => {
    event.preventDefault()
    setTool(typed.trim())
  }
  return (
    <Dialog title={a("keys.accessOf", { name: keyView.name })} onClose={onClose}>
      <form className="entry-form" onSubmit={ask}>
        <FieldInput label={a("keys.tool")} kind="text" choices={names} required value={typed} onChange={(text) => setTyped(String(text ?? ""))} />
        <div role="status">
          {data && (
            <>
              <p className={data.access.decision === "deny" ? "problem" : "good"}>{a(`keys.${data.access.decision}`, { tool })}</p>
              <p className="about">{a("keys.because", { rule: data.access.rule, reason: data.access.reason })}</p>
            </>
          )}
        </div>
        <ProblemText text={problem} />
        <footer>
          <button className="primary" disabled={!typed.trim()}>
            {a("keys.check")}
          </button>
        </footer>
      </form>
    </Dialog>
  )
}
