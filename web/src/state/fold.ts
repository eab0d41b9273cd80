// The one reducer: entries and fleeting events in, a view out. Pure: `fold(view, batch)` never changes what it is given.
// Applying something twice changes nothing: entries are numbered, and fleeting events say where they belong.
import type { Call, Durable, Entry, Fleeting, Item, Result, RunQueued, TurnEnded } from "../wire/types"
import type { CallView, Queued, Row, Stream, Turn, TurnPart, View } from "./view"

export type Published = Entry | Fleeting

const encoder = new TextEncoder()

export function fold(view: View, batch: Published[]): View {
  const draft: View = { ...view, rows: view.rows.slice() }
  for (const item of batch) {
    if (!("event" in item)) fleeting(draft, item)
    else if (item.seq > draft.seq) {
      durable(draft, item, item.event)
      draft.seq = item.seq
    }
  }
  return draft
}

function durable(view: View, entry: Entry, event: Durable): void {
  switch (event.type) {
    case "conversation.opened":
      view.owner = event.owner.user ?? "local"
      settle(view, event.settings.title, event.settings.tools)
      return
    case "conversation.changed":
      settle(view, event.settings.title, event.settings.tools)
      return
    case "message.added":
      addItems(view, [event.item], entry)
      return
    case "message.removed":
      remove(view, new Set(event.ids))
      return
    case "history.compacted":
      view.rows.push({ kind: "compacted", key: `compacted-${entry.seq}`, at: entry.at, how: event.summarised ? "summarised" : event.dropped?.length ? "results" : "left out" })
      return
    case "run.queued":
      view.queue = [...view.queue, queued(event, entry)]
      return
    case "run.started":
      started(view, entry, event.model)
      return
    case "run.suspended":
      if (view.run) view.run = { ...view.run, waiting: true }
      return
    case "run.ended":
      ended(view, entry, event)
      return
    case "stop.requested":
      if (event.call_id) changeCall(view, event.call_id, { stopping: true })
      else if (view.run) view.run = { ...view.run, stopping: true, waiting: false }
      return
    case "turn.started":
      turnStarted(view, entry, event.number)
      return
    case "turn.ended":
      turnEnded(view, entry, event)
      return
    case "turn.failed":
      turnFailed(view)
      return
    default:
      if (view.run?.waiting) view.run = { ...view.run, waiting: false }
      callEvent(view, entry, event)
  }
}

type CallEvent = Extract<Durable, { type: `call.${string}` }>

function callEvent(view: View, entry: Entry, event: CallEvent): void {
  switch (event.type) {
    case "call.judged":
      changeCall(view, event.call_id, {
        phase: event.verdict === "allow" ? "allowed" : event.verdict === "ask" ? "asking" : "requested",
        verdict: event.verdict,
        rule: event.rule,
        expiresAt: event.expires_at ?? 0,
      })
      return
    case "call.approved":
      changeCall(view, event.call_id, {
        phase: "allowed",
        decision: "approved",
        decidedBy: event.by,
        edited: event.arguments ?? undefined,
      })
      remember(view, event.remember ?? "no", event.call_id)
      return
    case "call.denied":
      changeCall(view, event.call_id, { decision: "denied", decidedBy: event.by, reason: event.reason ?? "" })
      return
    case "call.started":
      changeCall(view, event.call_id, (call) => ({
        phase: "running",
        attempt: event.attempt ?? 1,
        startedAt: call.startedAt ?? entry.at,
      }))
      return
    case "call.parked":
      changeCall(view, event.call_id, { phase: "parked", parked: event, expiresAt: event.expires_at })
      return
    case "call.answered":
      changeCall(view, event.call_id, { phase: "allowed", answered: event })
      return
    case "call.ended":
      changeCall(view, event.result.call_id, { phase: "closed", result: event.result, endedAt: entry.at })
      return
    default:
      event satisfies never
  }
}

function fleeting(view: View, event: Fleeting): void {
  switch (event.type) {
    case "text.appended":
      append(view, event.turn, "text", event.offset, event.text)
      return
    case "reasoning.appended":
      append(view, event.turn, "reasoning", event.offset, event.text)
      return
    case "arguments.appended":
      changeOpenTurn(view, (turn) => {
        const fresh: Stream = { kind: "draft", id: `${turn.key}-call-${event.index}`, tool: event.tool, text: "" }
        return turn.number === event.turn ? grown(turn, fresh, event.offset, event.text) : turn
      })
      return
    case "call.progressed":
      changeCall(view, event.call_id, (call) =>
        call.phase !== "running" || (call.progress && call.progress.offset >= event.offset)
          ? {}
          : { progress: { done: event.progress, total: event.total ?? null, message: event.message ?? "", offset: event.offset } },
      )
      return
    default:
      event satisfies never
  }
}

function settle(view: View, title = "", tools: string[] | null = null): void {
  view.title = title
  view.tools = tools
}

function queued(event: RunQueued, entry: Entry): Queued {
  return { run: entry.run ?? "", at: entry.at, input: event.input, appTools: event.app_tools ?? [] }
}

function started(view: View, entry: Entry, model: string): void {
  const run = entry.run ?? ""
  const request = view.queue.find((one) => one.run === run)
  view.queue = view.queue.filter((one) => one !== request)
  view.run = {
    id: run,
    model,
    startedAt: entry.at,
    correlationId: entry.correlation_id ?? "",
    appTools: request?.appTools ?? [],
    waiting: false,
    stopping: false,
  }
  addItems(view, request?.input ?? [], entry)
}

function ended(view: View, entry: Entry, event: Extract<Durable, { type: "run.ended" }>): void {
  if (event.run_id) {
    view.queue = view.queue.filter((one) => one.run !== event.run_id)
    return
  }
  view.run = null
  if (event.ending === "done") return
  view.rows.push({
    kind: "ending",
    key: event.message?.id ?? `ending-${entry.seq}`,
    at: entry.at,
    run: entry.run ?? "",
    ending: event.ending,
    detail: event.detail ?? "",
    message: event.message?.text ?? "",
    correlationId: entry.correlation_id ?? "",
  })
}

function turnStarted(view: View, entry: Entry, number: number): void {
  const last = view.rows.at(-1)
  if (last?.kind === "turn" && last.open && last.number === number) {
    view.rows[view.rows.length - 1] = { ...last, parts: [], restarted: last.restarted + 1 }
    return
  }
  view.rows.push(newTurn(`turn-${entry.seq}`, entry.at, number, true))
}

function newTurn(key: string, at: number, number: number, open: boolean): Turn {
  return { kind: "turn", key, at, number, parts: [], open, restarted: 0, model: "" }
}

function turnEnded(view: View, entry: Entry, event: TurnEnded): void {
  const results = new Map(event.items.flatMap((item) => (item.type === "result" ? [[item.call_id, item] as const] : [])))
  changeOpenTurn(view, (turn) => ({
    ...turn,
    open: false,
    parts: event.items.flatMap((item) => part(view, item, entry, results)),
    model: event.model ?? "",
    usage: event.usage,
    finish: event.finish,
  }))
}

/** What it had said stays; why it failed is told where its run ends. */
function turnFailed(view: View): void {
  changeOpenTurn(view, (turn) => ({ ...turn, open: false }))
  const last = view.rows.at(-1)
  if (last?.kind === "turn" && last.parts.length === 0) view.rows.pop()
}

/** Items that came otherwise than from a turn: what somebody said, added, or called by hand. */
function addItems(view: View, items: Item[], entry: Entry): void {
  const results = new Map(items.flatMap((item) => (item.type === "result" ? [[item.call_id, item] as const] : [])))
  for (const item of items) {
    if (item.type === "user_message") view.rows.push({ kind: "said", key: item.id, at: item.at, item })
    else if (item.type === "system_text") view.rows.push({ kind: "note", key: item.id, at: item.at, item })
    else {
      const parts = part(view, item, entry, results)
      const last = view.rows.at(-1)
      if (!parts.length) continue
      if (last?.kind === "turn" && !last.open && last.key.startsWith(`given-${entry.seq}`)) {
        view.rows[view.rows.length - 1] = { ...last, parts: [...last.parts, ...parts] }
      } else {
        view.rows.push({ ...newTurn(`given-${entry.seq}-${item.id}`, item.at, 0, false), parts })
      }
    }
  }
}

function part(view: View, item: Item, entry: Entry, results: Map<string, Result>): TurnPart[] {
  switch (item.type) {
    case "model_text":
      return [{ kind: "text", id: item.id, text: item.text, citations: item.citations, suggestions: item.suggestions }]
    case "reasoning":
      return item.text ? [{ kind: "reasoning", id: item.id, text: item.text }] : []
    case "call":
      return [{ kind: "call", id: item.id, call: callView(view, item, entry, results.get(item.id)) }]
    default:
      return []
  }
}

function callView(view: View, call: Call, entry: Entry, result: Result | undefined): CallView {
  const appTool = view.run?.appTools.find((tool) => tool.name === call.tool)
  const made: CallView = { id: call.id, call, phase: "requested", requestedAt: entry.at, appTool }
  return result ? { ...made, phase: "closed", providerRanIt: true, result, endedAt: entry.at } : made
}

function append(view: View, number: number, kind: "text" | "reasoning", offset: number, text: string): void {
  changeOpenTurn(view, (turn) => (turn.number === number ? grown(turn, { kind, id: `${turn.key}-${kind}`, text: "" }, offset, text) : turn))
}

/** A stream of the open turn with a piece more; a piece that does not fit where it says is one that came before. */
function grown(turn: Turn, fresh: Stream, offset: number, text: string): Turn {
  const at = turn.parts.findIndex((one) => one.id === fresh.id)
  const old = (turn.parts[at] ?? fresh) as Stream
  const bytes = old.bytes ?? 0
  if (bytes !== offset) return turn
  const made = { ...old, text: old.text + text, bytes: bytes + encoder.encode(text).length }
  return { ...turn, parts: at < 0 ? [...turn.parts, made] : turn.parts.with(at, made) }
}

function changeOpenTurn(view: View, change: (turn: Turn) => Turn): void {
  const at = view.rows.findLastIndex((row) => row.kind === "turn")
  const turn = view.rows[at]
  if (turn?.kind === "turn" && turn.open) view.rows[at] = change(turn)
}

function changeCall(view: View, id: string, change: Partial<CallView> | ((call: CallView) => Partial<CallView>)): void {
  const at = view.rows.findLastIndex((row) => row.kind === "turn" && row.parts.some((one) => one.id === id && one.kind === "call"))
  const turn = view.rows[at]
  if (turn?.kind !== "turn") return
  const parts = turn.parts.map((one): TurnPart => {
    if (one.kind !== "call" || one.id !== id) return one
    const made = typeof change === "function" ? change(one.call) : change
    return { ...one, call: { ...one.call, ...made } }
  })
  view.rows[at] = { ...turn, parts }
}

function remember(view: View, what: "no" | "tool" | "conversation", callId: string): void {
  if (what === "no") return
  const calls = view.rows.flatMap((row) => (row.kind === "turn" ? row.parts : []))
  const found = calls.find((one) => one.kind === "call" && one.id === callId)
  const name = what === "conversation" ? "*" : found?.kind === "call" ? found.call.call.tool : ""
  view.remembered = [...view.remembered, name]
}

function remove(view: View, ids: Set<string>): void {
  view.rows = view.rows.flatMap((row): Row[] => {
    if (row.kind === "said" || row.kind === "note") return ids.has(row.item.id) ? [] : [row]
    if (row.kind === "ending") return ids.has(row.key) ? [] : [row]
    if (row.kind !== "turn") return [row]
    const parts = row.parts.filter((one) => !ids.has(one.id))
    return parts.length || !row.parts.length ? [{ ...row, parts }] : []
  })
}
