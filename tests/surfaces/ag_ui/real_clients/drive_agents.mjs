// Drives agents of `@ag-ui/client`, unchanged. Reads requests as lines of JSON, and writes their answers the same way,
// each with the id of its request: several may be open at once.
import { EventEmitter, once } from "node:events"
import { createInterface } from "node:readline"
import { pathToFileURL } from "node:url"

const [folder] = process.argv.slice(2)
const load = path => import(pathToFileURL(`${folder}/${path}`).href)
const clients = {
  current: await load("@ag-ui/client/dist/index.mjs"),
  earlier: await load("ag-ui-client-0.0/dist/index.mjs"),
}
const { EventSchemas, AgentCapabilitiesSchema } = await load("@ag-ui/core/dist/schemas.mjs")
const { from, lastValueFrom, toArray } = await load("rxjs/dist/cjs/index.js").then(module => module.default)
const agents = new Map()
const changes = new EventEmitter()
let warnings = []
console.warn = (...parts) => warnings.push(parts.map(String).join(" "))
console.error = () => {}
// When a server dies, the client throws once more while it cleans up, where nobody can catch it.
process.on("unhandledRejection", () => {})

const operations = {
  open({ agent, client = "current", ...config }) {
    agents.set(agent, new clients[client].HttpAgent(config))
    return {}
  },

  // Lets a test change what an agent holds, as its application would.
  change({ agent, messages, state, forget }) {
    const subject = agents.get(agent)
    if (messages) subject.setMessages(messages)
    if (state) subject.setState(state)
    if (forget) subject.pendingInterrupts = []
    return describe(subject)
  },

  async waitFor({ agent, text }) {
    const subject = agents.get(agent)
    const hasText = () => subject.messages.some(message => String(message.content).includes(text))
    while (!hasText()) await once(changes, agent)
    return {}
  },

  async run({ agent, message, abortAt, ...parameters }) {
    const subject = agents.get(agent)
    if (message) subject.addMessage(message)
    const events = []
    let finished = {}
    let error = ""
    const watch = {
      onEvent({ event }) {
        events.push(event)
        if (event.type === abortAt) subject.abortRun()
      },
      onMessagesChanged: () => { changes.emit(agent) },
      onRunFinishedEvent: ({ outcome, pendingToolCallIds }) => { finished = { outcome, pending: pendingToolCallIds } },
      onRunErrorEvent: ({ event }) => { error = `${event.code}: ${event.message}` },
      onRunFailed: failure => { error = String(failure.error.message) },
    }
    await subject.runAgent(parameters, watch).catch(failure => { error ||= String(failure.message) })
    return { ...describe(subject), ...finished, events, error }
  },

  // Checks recorded streams: each frame against its schema, the sequence against the client's own rules.
  async check({ streams }) {
    const errors = []
    for (const [index, events] of streams.entries()) {
      try {
        for (const event of events) EventSchemas.parse(event)
        await lastValueFrom(from(events).pipe(clients.current.verifyEvents(), toArray()))
        await lastValueFrom(from(events).pipe(clients.earlier.verifyEvents(false), toArray()))
      } catch (failure) {
        errors.push(`stream ${index}: ${failure.message}`)
      }
    }
    return { errors }
  },

  checkCapabilities({ capabilities }) {
    return { capabilities: AgentCapabilitiesSchema.parse(capabilities) }
  },
}

function describe(agent) {
  return { messages: agent.messages, state: agent.state, interrupts: agent.pendingInterrupts }
}

async function answer({ id, operation, ...request }) {
  let reply
  try {
    reply = await operations[operation](request)
  } catch (failure) {
    reply = { error: String(failure.stack) }
  }
  const said = warnings
  warnings = []
  process.stdout.write(JSON.stringify({ id, reply: { ...reply, warnings: said } }) + "\n")
}

process.stdout.write("{}\n")
createInterface({ input: process.stdin }).on("line", line => void answer(JSON.parse(line)))
