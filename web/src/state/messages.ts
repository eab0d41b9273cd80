// Sending a message to a conversation. Nothing is shown ahead of the server: the message appears when its entry arrives
// over the conversation's event stream, so that a message on the page is always one that was stored.
import { beginTrace } from "../wire/consoleLog"
import { request } from "../wire/http"
import { enqueueRequest } from "./requestQueue"

/** Start a run with this message. Resolves as soon as the server has stored it. */
export async function sendMessage(conversation: string, content: string, files: { name: string; data: string }[] = []): Promise<void> {
  const path = `conversations/${encodeURIComponent(conversation)}/chat`
  // The response streams the run. It is not read, as the event stream carries the same; closing it does not stop the run.
  const headers = { accept: "text/event-stream", "x-correlation-id": beginTrace() }
  const body = files.length ? { content, attachments: files.map(({ name, data }) => ({ name, data })) } : { content }
  const response = await enqueueRequest(conversation, () => request("POST", path, body, { headers }))
  await response.body?.cancel()
}
