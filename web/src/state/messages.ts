// Sending a message to a conversation. Nothing is shown ahead of the server: the message appears when its entry arrives
// over the conversation's event stream, so that a message on the page is always one that was stored.
import { beginTrace } from "../wire/consoleLog"
import { request, requestJson } from "../wire/http"
import { enqueueRequest } from "./requestQueue"

/** The images and files of a message that is sent. */
export interface MessageFiles {
  added: { name: string; data: string }[]
  /** The message whose images and files are sent again: the server has them. Empty if there is none. */
  keptFrom?: string
  /** Those that are not sent again, by their positions. */
  leftOut?: number[]
}

/** How a message is sent. */
interface SendOptions extends MessageFiles {
  /** The model that answers this message only; empty for that of the conversation. */
  model?: string
}

/** Start a run with this message. Resolves as soon as the server has stored it. */
export async function sendMessage(conversation: string, content: string, { added, keptFrom = "", leftOut = [], model = "" }: SendOptions = { added: [] }): Promise<void> {
  const path = `conversations/${encodeURIComponent(conversation)}/chat`
  const body = {
    content,
    ...(model ? { model } : {}),
    ...(added.length ? { attachments: added.map(({ name, data }) => ({ name, data })) } : {}),
    ...(keptFrom ? { attachments_of: keptFrom } : {}),
    ...(keptFrom && leftOut.length ? { attachments_left_out: leftOut } : {}),
  }
  // The response streams the run. It is not read, as the event stream carries the same; closing it does not stop the run.
  const headers = { accept: "text/event-stream", prefer: "respond-async", "x-correlation-id": beginTrace() }
  const response = await enqueueRequest(conversation, () => request("POST", path, body, { headers }))
  await response.body?.cancel()
}

/** Let the conversation end with an earlier item, or with one of another branch. An empty id is the beginning. */
export async function rewind(conversation: string, to: string): Promise<void> {
  await enqueueRequest(conversation, () => requestJson("POST", `conversations/${encodeURIComponent(conversation)}/rewind`, { to }))
}

/**
 * Rewind to the item `to` and send a message from there; an empty one has the last message answered again. If the message is
 * not accepted, the conversation returns to `head`, where it ended before.
 */
export async function branch(conversation: string, to: string, content: string, head: string, files?: SendOptions): Promise<void> {
  await rewind(conversation, to) // also where the conversation ends with `to`: the end of a failed run goes away
  try {
    await sendMessage(conversation, content, files)
  } catch (error) {
    await rewind(conversation, head).catch(() => undefined)
    throw error
  }
}

export async function deleteMessage(conversation: string, message: string): Promise<void> {
  const path = `conversations/${encodeURIComponent(conversation)}/messages/${encodeURIComponent(message)}`
  await enqueueRequest(conversation, () => requestJson("DELETE", path))
}
