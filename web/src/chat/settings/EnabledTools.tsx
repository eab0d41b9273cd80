import { useEffect, useMemo, useState } from "react"
import { ProblemText } from "../../components/ProblemText"
import { enqueueRequest } from "../../state/requestQueue"
import { requestJson } from "../../wire/http"
import type { AvailableTools, EnabledTools as Answer, EnabledTool } from "../../wire/types"
import { useProblem } from "../../wire/useProblem"
import { useQuery } from "../../wire/useQuery"
import { ToolChoices } from "./ToolChoices"

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
  const tools = useMemo(() => new Map(available.data?.available_tools.map((tool) => [keyOf(tool), tool])), [available.data])
  const change = async (keys: string[], on: boolean) => {
    const before = enabled
    const expected = new Set(before)
    for (const key of keys) on ? expected.add(key) : expected.delete(key)
    setEnabled(expected) // at once: the checkbox must not wait for requests that are queued before this one
    try {
      // As one step of the queue, so that a message which is sent meanwhile has all of them.
      await enqueueRequest(conversation, async () => {
        for (const key of keys) {
          const { server_id, tool_name } = tools.get(key)!
          const answer = await requestJson<Answer>(on ? "POST" : "DELETE", path, { server_id, tool_name })
          if (key === keys.at(-1)) setEnabled(toKeys(answer))
        }
      })
      clear()
    } catch (error) {
      setEnabled(before)
      initial.refetch() // some of them may have been changed
      fail(error)
    }
  }
  return (
    <div aria-busy={!enabled}>
      <ProblemText text={problem} />
      {enabled && available.data && (
        <ToolChoices
          tools={[...tools].map(([key, tool]) => ({ key, name: tool.tool_name, title: tool.tool_title, description: tool.tool_description, server: tool.server_id === "function" ? "" : tool.server_name }))}
          isOn={(key) => enabled.has(key)}
          onChange={(keys, on) => void change(keys, on)}
        />
      )}
    </div>
  )
}

function toKeys(answer: Answer): Set<string> {
  return new Set(answer.enabled_tools.map(keyOf))
}

/** Return a key of server and tool: two servers may have a tool of the same name. */
function keyOf({ server_id, tool_name }: EnabledTool): string {
  return `${server_id}/${tool_name}`
}
