// Sending a message to a conversation. The answer comes through the conversation's own event stream.
import { beginTrace } from "../wire/consoleLog"
import { part, request } from "../wire/http"
import { inTurn } from "./requestQueue"

/** Start a run with this message. Resolve as soon as the server has taken it: the stream of the response is not read. */
export async function sendMessage(conversation: string, content: string): Promise<void> {
  const path = `conversations/${part(conversation)}/chat`
  const headers = { accept: "text/event-stream", "x-correlation-id": beginTrace() }
  const answer = await inTurn(conversation, () => request("POST", path, { content }, { headers }))
  await answer.body?.cancel()
}
