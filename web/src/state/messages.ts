// Sending a message to a conversation. Nothing is shown ahead of the server: the message appears when its entry arrives
// over the conversation's event stream, so that a message on the page is always one that was stored.
import { beginTrace } from "../wire/consoleLog"
import { request, requestJson } from "../wire/http"
import { enqueueRequest } from "./requestQueue"

/** Start a run with this message. Resolves as soon as the server has stored it. */
export async function sendMessage(conversation: string, content: string, files: { name: string; data: string }[] = []): Promise<void> {
  const attachments = files.map(({ name, data }) => ({ name, data }))
  await startRun(conversation, attachments.length ? { content, attachments } : { content })
}

async function startRun(conversation: string, body: { content: string; attachments?: { name: string; data: string }[]; attachments_of?: string }): Promise<void> {
  const path = `conversations/${encodeURIComponent(conversation)}/chat`
  // The response streams the run. It is not read, as the event stream carries the same; closing it does not stop the run.
  const headers = { accept: "text/event-stream", "x-correlation-id": beginTrace() }
  const response = await enqueueRequest(conversation, () => request("POST", path, body, { headers }))
  await response.body?.cancel()
}

/** Let the conversation end with an earlier item, or with one of another branch. An empty id is the beginning. */
export async function rewind(conversation: string, to: string): Promise<void> {
  await enqueueRequest(conversation, () => requestJson("POST", `conversations/${encodeURIComponent(conversation)}/rewind`, { to }))
}

/**
 * Rewind to the item `to` and send a message from there; an empty one has the last message answered again. If the message is
 * not accepted, the conversation returns to `head`, where it ended before. The images and files of the message
 * `attachmentsOf` are sent again: the server has them.
 */
export async function branch(conversation: string, to: string, content: string, head: string, attachmentsOf = ""): Promise<void> {
  await rewind(conversation, to) // also where the conversation ends with `to`: the end of a failed run goes away
  try {
    await startRun(conversation, attachmentsOf ? { content, attachments_of: attachmentsOf } : { content })
  } catch (error) {
    await rewind(conversation, head).catch(() => undefined)
    throw error
  }
}

export async function deleteMessage(conversation: string, message: string): Promise<void> {
  const path = `conversations/${encodeURIComponent(conversation)}/messages/${encodeURIComponent(message)}`
  await enqueueRequest(conversation, () => requestJson("DELETE", path))
}
