import { useEffect, useState } from "react"
import { Dialog } from "../components/Dialog"
import { inTurn } from "../state/requestQueue"
import { ask, part, said } from "../wire/http"
import type { AvailableTools, EnabledTools as Answer, EnabledTool } from "../wire/types"
import { useAnswer } from "../wire/useQuery"
import { useSay } from "../locales"

/** Which tools this conversation may use. Disabling one binds at once. */
export function EnabledTools({ conversation, onClose }: { conversation: string; onClose: () => void }) {
  const say = useSay()
  const path = `conversations/${part(conversation)}/tools`
  const available = useAnswer<AvailableTools>(`${path}/available`)
  const first = useAnswer<Answer>(path)
  const [enabled, setEnabled] = useState<Set<string> | null>(null)
  const [problem, setProblem] = useState("")
  useEffect(() => {
    if (first.data) setEnabled(names(first.data))
  }, [first.data])
  const change = async ({ server_id, tool_name }: EnabledTool, on: boolean) => {
    const before = enabled
    const expected = new Set(before)
    if (on) expected.add(keyOf({ server_id, tool_name }))
    else expected.delete(keyOf({ server_id, tool_name }))
    setEnabled(expected)
    try {
      setEnabled(names(await inTurn(conversation, () => ask<Answer>(on ? "POST" : "DELETE", path, { server_id, tool_name }))))
      setProblem("")
    } catch (error) {
      setEnabled(before)
      setProblem(said(error))
    }
  }
  return (
    <Dialog title={say("chat.tools")} onClose={onClose}>
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      <ul className="choices" aria-busy={!enabled}>
        {enabled && available.data?.available_tools.map((tool) => (
          <li key={keyOf(tool)}>
            <label>
              <input type="checkbox" checked={enabled.has(keyOf(tool))} onChange={(event) => void change(tool, event.target.checked)} />
              <span>
                <code>{tool.tool_name}</code> {tool.server_id !== "function" && <span className="pill">{tool.server_name}</span>}
                <small>{tool.tool_description}</small>
              </span>
            </label>
          </li>
        ))}
      </ul>
    </Dialog>
  )
}

function names(answer: Answer): Set<string> {
  return new Set(answer.enabled_tools.map(keyOf))
}

/** Two servers may have a tool of the same name. */
function keyOf({ server_id, tool_name }: EnabledTool): string {
  return `${server_id}/${tool_name}`
}
