// A chat with the AI SDK's `useChat`: messages, tool cards, approvals, stop, edit and another try.
import { useChat } from "@ai-sdk/react"
import { getToolName, isToolUIPart } from "ai"
import { useState } from "react"
import { createRoot } from "react-dom/client"
import { Header } from "./Header.jsx"
import { chat, decide, stopRun } from "./thread.js"
import { ToolCard } from "./ToolCard.jsx"

const SUGGESTIONS = [
  "add milk to groceries",
  "remind me to water the plants tomorrow",
  "call turn_off of light on light.kitchen",
]

function App() {
  const { messages, status, error, sendMessage, regenerate } = useChat({ chat })
  const [edited, setEdited] = useState(null) // the message that the user is changing
  const isBusy = status === "submitted" || status === "streaming"

  function send(text) {
    void sendMessage({ text, messageId: edited?.id })
    setEdited(null)
  }

  return (
    <main>
      <Header other="assistant-ui" href="./assistant-ui.html" />
      <section role="log" aria-label="Messages">
        {messages.map(message => (
          <article key={message.id} className={message.role}>
            {message.parts.map((part, index) => <Part key={index} part={part} />)}
            {message.role === "user" && !isBusy && <button className="quiet" onClick={() => setEdited(message)}>Edit</button>}
          </article>
        ))}
        {status === "submitted" && <p className="note">…</p>}
        {error && <p className="problem" role="alert">{error.message}</p>}
        {messages.length > 0 && !isBusy && <button className="quiet" onClick={() => void regenerate()}>Try again</button>}
        {messages.length === 0 && SUGGESTIONS.map(text => (
          <button key={text} className="suggestion" onClick={() => send(text)}>{text}</button>
        ))}
        <div ref={end => end?.scrollIntoView()} /> {/* each time it is drawn: the last words stay in sight */}
      </section>
      <Composer key={edited?.id} text={edited ? getText(edited) : ""} isBusy={isBusy} send={send} />
    </main>
  )
}

function Part({ part }) {
  if (part.type === "text") return <p>{part.text}</p>
  if (part.type === "reasoning") return <details><summary>Thoughts</summary><p>{part.text}</p></details>
  if (!isToolUIPart(part)) return null
  const { state, input, output, errorText } = part
  if (state === "approval-requested") {
    return <ToolCard name={getToolName(part)} state={state}><Approval part={part} /></ToolCard>
  }
  return <ToolCard name={getToolName(part)} state={state} input={input} output={output ?? errorText} />
}

function Approval({ part }) {
  const [text, setText] = useState(JSON.stringify(part.input))
  const input = parseJson(text)
  return (
    <form onSubmit={event => event.preventDefault()}>
      <label>Arguments <input value={text} onChange={event => setText(event.target.value)} spellCheck="false" /></label>
      <button className="primary" disabled={!input} onClick={() => decide(part, true, input)}>Approve</button>
      <button type="button" onClick={() => decide(part, false)}>Deny</button>
    </form>
  )
}

function Composer({ text: initialText, isBusy, send }) {
  const [text, setText] = useState(initialText)
  function submit(event) {
    event.preventDefault()
    send(text)
    setText("")
  }
  return (
    <form className="composer" onSubmit={submit}>
      <input aria-label="Message" value={text} onChange={event => setText(event.target.value)} required autoFocus />
      {isBusy
        ? <button type="button" onClick={() => void stopRun()}>Stop</button>
        : <button className="primary">Send</button>}
    </form>
  )
}

const getText = message => message.parts.map(part => (part.type === "text" ? part.text : "")).join("")

function parseJson(text) {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

createRoot(document.querySelector("#app")).render(<App />)
