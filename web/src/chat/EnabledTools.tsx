import { useEffect, useState } from "react"
import { enqueueRequest } from "../state/requestQueue"
import { requestJson } from "../wire/http"
import type { AvailableTools, EnabledTools as Answer, EnabledTool } from "../wire/types"
import { useProblem } from "../wire/useProblem"
import { useQuery } from "../wire/useQuery"

/** A list that chooses the tools of a conversation. A change applies at once, to a run that is active too. */
export function EnabledTools({ conversation }: { conversation: string }) {
  const path = `conversations/${encodeURIComponent(conversation)}/tools`
  const available = useQuery<AvailableTools>(`${path}/available`)
  const initial = useQuery<Answer>(path)
  const [enabled, setEnabled] = useState<Set<string> | null>(null)
  const [problem, fail, clear] = useProblem()
  useEffect(() => {
    if (initial.data) setEnabled(toKeys(initial.data))
  }, [initial.data])
  const change = async ({ server_id, tool_name }: EnabledTool, on: boolean) => {
    const before = enabled
    const expected = new Set(before)
    if (on) expected.add(keyOf({ server_id, tool_name }))
    else expected.delete(keyOf({ server_id, tool_name }))
    setEnabled(expected) // at once: the checkbox must not wait for requests that are queued before this one
    try {
      setEnabled(toKeys(await enqueueRequest(conversation, () => requestJson<Answer>(on ? "POST" : "DELETE", path, { server_id, tool_name }))))
      clear()
    } catch (error) {
      setEnabled(before)
      fail(error)
    }
  }
  return (
    <>
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
    </>
  )
}

function toKeys(answer: Answer): Set<string> {
  return new Set(answer.enabled_tools.map(keyOf))
}

/** Return a key of server and tool: two servers may have a tool of the same name. */
function keyOf({ server_id, tool_name }: EnabledTool): string {
  return `${server_id}/${tool_name}`
}
