// The same conversation with assistant-ui: its runtime wraps the chat, and its primitives draw it.
import { useChat } from "@ai-sdk/react"
import {
  AssistantRuntimeProvider, ComposerPrimitive, ErrorPrimitive, MessagePrimitive, ThreadPrimitive,
} from "@assistant-ui/react"
import { useAISDKRuntime } from "@assistant-ui/react-ai-sdk"
import { createRoot } from "react-dom/client"
import { Header } from "./Header.jsx"
import { chat } from "./thread.js"
import { ToolCard } from "./ToolCard.jsx"

function App() {
  const runtime = useAISDKRuntime(useChat({ chat }))
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <main>
        <Header other="useChat" href="./index.html" />
        <ThreadPrimitive.Viewport asChild>
          <section role="log" aria-label="Messages">
            <ThreadPrimitive.Messages>{({ message }) => <Message role={message.role} />}</ThreadPrimitive.Messages>
          </section>
        </ThreadPrimitive.Viewport>
        <ComposerPrimitive.Root className="composer">
          <ComposerPrimitive.Input aria-label="Message" autoFocus />
          <ComposerPrimitive.Send className="primary">Send</ComposerPrimitive.Send>
        </ComposerPrimitive.Root>
      </main>
    </AssistantRuntimeProvider>
  )
}

function Message({ role }) {
  return (
    <article className={role}>
      <MessagePrimitive.Parts>{({ part }) => <Part part={part} />}</MessagePrimitive.Parts>
      <MessagePrimitive.Error><ErrorPrimitive.Message className="problem" /></MessagePrimitive.Error>
    </article>
  )
}

function Part({ part }) {
  if (part.type === "text") return <p>{part.text}</p>
  if (part.type !== "tool-call") return null
  return (
    <ToolCard name={part.toolName} state={getState(part)} input={part.args} output={part.result}>
      {isAsking(part) && <Approval respond={part.respondToApproval} />}
    </ToolCard>
  )
}

function Approval({ respond }) {
  return (
    <div className="buttons">
      <button className="primary" onClick={() => void respond({ approved: true })}>Approve</button>
      <button onClick={() => void respond({ approved: false })}>Deny</button>
    </div>
  )
}

const isAsking = part => part.approval !== undefined && part.approval.approved === undefined

function getState(part) {
  if (isAsking(part)) return "approval-requested"
  if (part.result === undefined) return "input-available"
  return part.approval?.approved === false ? "output-denied" : part.isError ? "output-error" : "output-available"
}

createRoot(document.querySelector("#app")).render(<App />)
