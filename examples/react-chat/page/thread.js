// The thread that both pages show: one chat of the AI SDK. The server has the log; this browser keeps a copy.
import { Chat } from "@ai-sdk/react"
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai"

const api = new URL("api/ai-sdk/chat", document.baseURI).href
const saved = JSON.parse(localStorage.getItem("thread")) ?? { id: crypto.randomUUID(), messages: [], isOpen: false }

const save = (messages, isOpen) => localStorage.setItem("thread", JSON.stringify({ id: saved.id, messages, isOpen }))

const transport = new DefaultChatTransport({
  api,
  prepareSendMessagesRequest({ id, messages, trigger, messageId }) {
    save(messages, true) // as it is sent: until the answer is whole, this is what a reload sends again
    return { body: { id, messages, trigger, messageId } }
  },
})

export const chat = new Chat({
  id: saved.id,
  messages: saved.messages,
  transport,
  // Once the last approval is answered, the run goes on.
  sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  onFinish({ messages, isDisconnect }) {
    if (!isDisconnect) save(messages, false)
  },
})

// A reload in mid-answer: what is sent again is not answered again. The server sends the answer from its beginning, also
// if it has ended in the meantime.
if (saved.isOpen) void chat.sendMessage()

// To stop reading is not enough: the run would go on without this page.
export async function stopRun() {
  await fetch(`${api}/${chat.id}/stop`, { method: "POST" })
  await chat.stop()
}

// Arguments that the user has changed are those that the call gets.
export function decide(part, approved, input = part.input) {
  const edit = other => (other.toolCallId === part.toolCallId ? { ...other, input } : other)
  chat.messages = chat.messages.map(message => ({ ...message, parts: message.parts.map(edit) }))
  void chat.addToolApprovalResponse({ id: part.approval.id, approved })
}

export function startNewThread() {
  localStorage.removeItem("thread")
  location.reload()
}
