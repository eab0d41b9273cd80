// A chat over AG-UI. The server has the log; this page keeps a copy, so that a reload shows it again.
import { HttpAgent } from "@ag-ui/client"
import { drawBoard, getState, runTool, tools } from "./tools.js"

const find = selector => document.querySelector(selector)
const saved = JSON.parse(sessionStorage.getItem("thread") ?? "{}")
const agent = new HttpAgent({
  url: new URL("assistant/ag-ui", document.baseURI).href,
  threadId: saved.threadId ?? crypto.randomUUID(),
  initialMessages: saved.messages ?? [],
})
let problem = ""
let answers = [] // to the interrupts of the last run, which are sent together

function draw() {
  const save = { threadId: agent.threadId, messages: agent.messages, isOpen: agent.isRunning }
  sessionStorage.setItem("thread", JSON.stringify(save))
  const lines = agent.messages.flatMap(message => [
    ...(message.content && message.role !== "tool" ? [[message.role, message.content]] : []),
    ...(message.toolCalls ?? []).map(call => ["tool", `${call.function.name} ${call.function.arguments}`]),
  ])
  if (problem) lines.push(["problem", problem])
  find("#thread").replaceChildren(...lines.map(([kind, text]) => {
    const line = document.createElement("p")
    line.className = kind
    line.textContent = text
    return line
  }))
  find("#stop").hidden = !agent.isRunning
  find("#send").disabled = agent.isRunning || agent.pendingInterrupts.length > 0
}

// Runs the agent until it has nothing more to do for now, or waits for the user.
async function run(parameters = {}) {
  problem = ""
  let pending = []
  agent.setState(getState())
  const running = agent.runAgent({ tools, ...parameters }, {
    onMessagesChanged: draw,
    onRunFinishedEvent: ({ pendingToolCallIds }) => { pending = pendingToolCallIds ?? [] },
    onRunErrorEvent: ({ event }) => { problem = event.code === "abort" ? "" : event.message },
  })
  draw()
  await running.catch(error => { problem = error.message })
  const calls = agent.messages.flatMap(message => message.toolCalls ?? []).filter(call => pending.includes(call.id))
  for (const call of calls) agent.addMessage(runTool(call))
  draw()
  if (calls.length) return run()
  askForApproval()
}

function askForApproval() {
  const interrupt = agent.pendingInterrupts[answers.length]
  const form = find("#approval")
  form.hidden = !interrupt
  if (!interrupt) return
  form.querySelector("p").textContent = interrupt.message
  form.elements.arguments.value = JSON.stringify(interrupt.metadata.arguments)
}

find("#chat").addEventListener("submit", event => {
  event.preventDefault()
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: event.target.elements.message.value })
  event.target.reset()
  void run()
})

find("#approval").addEventListener("submit", event => {
  event.preventDefault()
  const approved = event.submitter.value === "approve"
  const editedArgs = JSON.parse(event.target.elements.arguments.value)
  const { id } = agent.pendingInterrupts[answers.length]
  answers.push({ interruptId: id, status: "resolved", payload: { approved, editedArgs } })
  const isComplete = answers.length === agent.pendingInterrupts.length
  const resume = answers
  if (isComplete) answers = []
  event.target.hidden = true
  if (isComplete) void run({ resume })
  else askForApproval()
})

// The run goes on at the server: the next message, or a reload, shows what came of it.
find("#stop").addEventListener("click", () => agent.abortRun())

drawBoard()
draw()
if (saved.isOpen) void run()
