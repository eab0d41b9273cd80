// The reducer of a conversation: entries and live events in, a view out. Pure: `fold(view, batch)` never changes its
// arguments, and shares every row that the batch does not touch, so that components can compare rows by identity.
//
// A reconnect may deliver an item again, so applying an item twice must change nothing. An entry is stored and numbered:
// one that is not newer than the view is skipped. A live event is not stored: it carries the offset at which its text
// belongs, and fits nowhere else. What live events built is replaced when the entry of the ended turn arrives.
import type { ApprovalRecord, Call, CallsRequested, Durable, Entry, Fleeting, Item, ModelText, Reasoning, Result, RunQueued, Settings, TurnEnded } from "../wire/types"
import { NO_SPENDING, addSpending, toCompactionSpending, toModelSpending, toOptionalSpending, type Spending } from "./spending"
import { listCalls, type CallView, type QueuedRun, type Row, type StreamedPart, type Turn, type TurnPart, type ConversationView } from "./view"

export type StreamItem = Entry | Fleeting

const encoder = new TextEncoder()
const MAX_BRANCHES = 100

export function fold(view: ConversationView, batch: StreamItem[]): ConversationView {
  const draft: ConversationView = { ...view, rows: view.rows.slice() }
  for (const item of batch) {
    if (!("event" in item)) applyLiveEvent(draft, item)
    else if (item.seq > draft.seq) {
      applyEntry(draft, item, item.event)
      draft.seq = item.seq
    }
  }
  return draft
}

/** Apply an entry to a draft of the view. Rows are replaced, never changed in place. */
function applyEntry(view: ConversationView, entry: Entry, event: Durable): void {
  switch (event.type) {
    case "conversation.opened":
      view.owner = event.owner.user ?? "local"
      applySettings(view, event.settings)
      return
    case "conversation.changed":
      applySettings(view, event.settings)
      return
    case "message.added":
      addItems(view, [event.item], entry)
      return
    case "message.removed":
      removeItems(view, new Set(event.ids))
      return
    case "history.rewound":
      rewind(view, event.to)
      return
    case "history.compacted":
      spend(view, toCompactionSpending(event.usage, event.cost))
      view.rows.push({ kind: "compacted", key: `compacted-${entry.seq}`, at: entry.at, how: event.summarised ? "summarised" : event.dropped?.length ? "results" : "left out" })
      return
    case "run.queued":
      view.queue = [...view.queue, toQueuedRun(event, entry)]
      return
    case "run.started":
      startRun(view, entry, event.model)
      return
    case "run.suspended":
      if (view.run) view.run = { ...view.run, waiting: true, budget: event.budget ?? "" }
      return
    case "run.ended":
      spend(view, toOptionalSpending(event.cost))
      endRun(view, entry, event)
      return
    case "stop.requested":
      if (event.call_id) updateCall(view, event.call_id, { stopping: true })
      else if (view.run) view.run = { ...view.run, stopping: true, waiting: false, budget: "" }
      return
    case "turn.started":
      // A run that waited for a budget goes on with another turn.
      if (view.run?.waiting) view.run = { ...view.run, waiting: false, budget: "" }
      startTurn(view, entry, event.number)
      return
    case "turn.ended":
      endTurn(view, entry, event)
      return
    case "turn.failed":
      spend(view, toOptionalSpending(event.cost))
      failTurn(view)
      return
    default:
      // Any event of a call means that the run goes on: a decision, an answer or a result has arrived.
      if (view.run?.waiting) view.run = { ...view.run, waiting: false }
      applyCallEvent(view, entry, event)
  }
}

function addDecision(call: CallView, { by, reason = "" }: { by: string; reason?: string }, approved: boolean): ApprovalRecord[] {
  return [...(call.decisions ?? []), { by, approved, reason }]
}

type CallEvent = Extract<Durable, { type: `call.${string}` }> | CallsRequested

function applyCallEvent(view: ConversationView, entry: Entry, event: CallEvent): void {
  switch (event.type) {
    case "call.judged":
      updateCall(view, event.call_id, {
        phase: event.verdict === "allow" ? "allowed" : event.verdict === "ask" ? "asking" : "requested",
        verdict: event.verdict,
        rule: event.rule,
        expiresAt: event.expires_at ?? 0,
        sources: event.sources ?? [],
        terms: event.terms ?? null,
        approvedBy: [],
      })
      return
    case "call.approved":
      if (event.remaining) {
        updateCall(view, event.call_id, (call) => ({ approvedBy: [...(call.approvedBy ?? []), event.by], decisions: addDecision(call, event, true) }))
        return
      }
      updateCall(view, event.call_id, (call) => ({
        phase: "allowed",
        decision: "approved",
        decidedBy: event.by,
        decisions: addDecision(call, event, true),
        edited: event.arguments ?? undefined,
      }))
      rememberApproval(view, event.remember ?? "no", event.call_id)
      return
    case "call.denied":
      updateCall(view, event.call_id, (call) => ({ decision: "denied", decidedBy: event.by, decisions: addDecision(call, event, false) }))
      return
    case "call.started":
      updateCall(view, event.call_id, (call) => ({
        phase: "running",
        attempt: event.attempt ?? 1,
        startedAt: call.startedAt ?? entry.at,
        ...(event.rule != null && { verdict: "allow", rule: event.rule }),
      }))
      return
    case "call.parked":
      updateCall(view, event.call_id, { phase: "parked", parked: event, expiresAt: event.expires_at })
      return
    case "call.answered":
      updateCall(view, event.call_id, { phase: "allowed", answered: event })
      return
    case "call.ended":
      spend(view, toOptionalSpending(event.cost))
      updateCall(view, event.result.call_id, { phase: "closed", result: event.result, endedAt: entry.at })
      return
    case "calls.requested":
      updateCall(view, event.parent, (program) => ({ phase: "nested", printed: (program.printed ?? "") + (event.printed ?? ""), calls: [...(program.calls ?? []), ...toProgramCalls(view, entry, event)] }))
      return
    default:
      event satisfies never
  }
}

function applyLiveEvent(view: ConversationView, event: Fleeting): void {
  switch (event.type) {
    case "text.appended":
      appendText(view, event.turn, "text", event.offset, event.text)
      return
    case "reasoning.appended":
      appendText(view, event.turn, "reasoning", event.offset, event.text)
      return
    case "arguments.appended":
      updateOpenTurn(view, (turn) => {
        const empty: StreamedPart = { kind: "draft", id: `${turn.key}-call-${event.index}`, tool: event.tool, text: "" }
        return turn.number === event.turn ? appendToPart(turn, empty, event.offset, event.text) : turn
      })
      return
    case "call.progressed":
      updateCall(view, event.call_id, (call) =>
        call.phase !== "running" || (call.progress && call.progress.offset >= event.offset)
          ? {}
          : { progress: { done: event.progress, total: event.total ?? null, message: event.message ?? "", offset: event.offset } },
      )
      return
    default:
      event satisfies never
  }
}

function applySettings(view: ConversationView, settings: Settings): void {
  const { title = "", tools = null, model = "" } = settings
  view.settings = settings
  view.title = title
  view.tools = tools
  view.model = model
}

/** End the rows with the item `to`, on whatever branch it is. The rows that are left stay available. */
function rewind(view: ConversationView, to: string): void {
  const branch = [view.rows, ...view.leftRows.toReversed()].find((rows) => rows.some((row) => holdsItem(row, to)))
  const left = [...view.leftRows, view.rows]
  view.rows = branch ? branch.slice(0, branch.findIndex((row) => holdsItem(row, to)) + 1) : []
  view.leftRows = dropCoveredBranches(left, view.rows).slice(-MAX_BRANCHES)
}

/** Return the branches that have an item which neither another branch nor the current rows have. */
function dropCoveredBranches(branches: Row[][], current: Row[]): Row[][] {
  // The rows after the last item are not part of the history, and are not there when a rewind returns to that item.
  const ends = branches.map((rows) => rows.findLastIndex(hasItems))
  return branches.filter((rows, index) => {
    const end = ends[index] ?? -1
    const key = rows[end]?.key
    // Branches are paths of one tree: two that have the same row at the same place are the same up to there.
    const isCovered = (other: Row[], number: number) => other[end]?.key === key && ((ends[number] ?? -1) > end || number > index)
    return key !== undefined && current[end]?.key !== key && !branches.some(isCovered)
  })
}

function hasItems(row: Row): boolean {
  if (row.kind === "turn") return row.parts.length > 0
  return row.kind === "ending" ? row.message !== "" : row.kind !== "compacted"
}

function holdsItem(row: Row, id: string): boolean {
  if (row.kind !== "turn") return row.key === id
  return row.parts.some((part) => part.id === id || (part.kind === "call" && part.call.result?.id === id))
}

function toQueuedRun(event: RunQueued, entry: Entry): QueuedRun {
  return { run: entry.run ?? "", at: entry.at, input: event.input, appTools: event.app_tools ?? [] }
}

function startRun(view: ConversationView, entry: Entry, model: string): void {
  const run = entry.run ?? ""
  const request = view.queue.find((queued) => queued.run === run)
  view.queue = view.queue.filter((queued) => queued !== request)
  view.run = {
    id: run,
    model,
    startedAt: entry.at,
    correlationId: entry.correlation_id ?? "",
    appTools: request?.appTools ?? [],
    waiting: false,
    budget: "",
    stopping: false,
    spending: NO_SPENDING,
  }
  addItems(view, request?.input ?? [], entry)
}

function endRun(view: ConversationView, entry: Entry, event: Extract<Durable, { type: "run.ended" }>): void {
  // An end that names a run is that of a queued run that never started; the current run goes on.
  if (event.run_id) {
    view.queue = view.queue.filter((queued) => queued.run !== event.run_id)
    return
  }
  const spending = view.run?.spending ?? NO_SPENDING
  view.run = null
  if (event.ending === "done") {
    const last = view.rows.at(-1)
    if (last?.kind === "turn") view.rows[view.rows.length - 1] = { ...last, spending, run: entry.run ?? "" }
    return
  }
  view.rows.push({
    kind: "ending",
    key: event.message?.id ?? `ending-${entry.seq}`,
    at: entry.at,
    run: entry.run ?? "",
    ending: event.ending,
    detail: event.detail ?? "",
    message: event.message?.text ?? "",
    correlationId: entry.correlation_id ?? "",
    spending,
  })
}

function spend(view: ConversationView, spending: Spending): void {
  view.spending = addSpending(view.spending, spending)
  if (view.run) view.run = { ...view.run, spending: addSpending(view.run.spending, spending) }
}

function startTurn(view: ConversationView, entry: Entry, number: number): void {
  const last = view.rows.at(-1)
  // The same turn starts again after the server was restarted in the middle of it: its text so far is void.
  if (last?.kind === "turn" && last.open && last.number === number) {
    view.rows[view.rows.length - 1] = { ...last, parts: [], restarted: last.restarted + 1 }
    return
  }
  view.rows.push(newTurn(`turn-${entry.seq}`, entry.at, number, true))
}

function newTurn(key: string, at: number, number: number, open: boolean): Turn {
  return { kind: "turn", key, at, number, parts: [], open, restarted: 0, model: "", head: "" }
}

function endTurn(view: ConversationView, entry: Entry, event: TurnEnded): void {
  spend(view, toModelSpending(event.usage, event.cost))
  const results = new Map(event.items.flatMap((item) => (item.type === "result" ? [[item.call_id, item] as const] : [])))
  updateOpenTurn(view, (turn) => ({
    ...turn,
    open: false,
    parts: event.items.flatMap((item) => toParts(view, item, entry, results)),
    head: event.items.at(-1)?.id ?? "",
    model: event.model ?? "",
    usage: event.usage,
    finish: event.finish,
  }))
}

/** Close the open turn and keep its text. The reason is shown with the end of the run; a turn without parts is dropped. */
function failTurn(view: ConversationView): void {
  updateOpenTurn(view, (turn) => ({ ...turn, open: false }))
  const last = view.rows.at(-1)
  if (last?.kind === "turn" && last.parts.length === 0) view.rows.pop()
}

/** Add rows for items that do not come from a turn of the model: messages of users, imported history, calls by hand. */
function addItems(view: ConversationView, items: Item[], entry: Entry): void {
  for (const item of items) {
    if (item.type === "user_message") view.rows.push({ kind: "user", key: item.id, at: item.at, item })
    else if (item.type === "system_text") view.rows.push({ kind: "note", key: item.id, at: item.at, item })
    else if (item.type === "result") updateCall(view, item.call_id, { phase: "closed", result: item, endedAt: entry.at })
    else addPart(view, item, entry)
  }
}

function addPart(view: ConversationView, item: ModelText | Reasoning | Call, entry: Entry): void {
  const parts = toParts(view, item, entry, new Map())
  const last = view.rows.at(-1)
  if (!parts.length) return
  // A call by hand, which comes with a run, does not belong to the message in front of it.
  const isCopied = entry.event.type === "message.added" || last?.key.startsWith(`added-${entry.seq}-`)
  if (last?.kind === "turn" && isCopied && continuesTurn(last, item)) {
    view.rows[view.rows.length - 1] = { ...last, parts: [...last.parts, ...parts], head: item.id }
  } else {
    view.rows.push({ ...newTurn(`added-${entry.seq}-${item.id}`, item.at, 0, false), parts, head: item.id })
  }
}

/** Return whether an added item belongs to the turn of an added row. A history cannot end between the two. */
function continuesTurn(row: Turn, item: Item): boolean {
  const last = row.parts.at(-1)
  if (row.number !== 0 || row.parts.some((part) => part.kind === "call" && part.call.phase === "closed")) return false
  return item.type === "call" || last?.kind === "call" || last?.kind === "reasoning"
}

function toParts(view: ConversationView, item: Item, entry: Entry, results: Map<string, Result>): TurnPart[] {
  switch (item.type) {
    case "model_text":
      return [{ kind: "text", id: item.id, text: item.text, citations: item.citations, suggestions: item.suggestions }]
    case "reasoning":
      return item.text ? [{ kind: "reasoning", id: item.id, text: item.text }] : []
    case "call":
      return [{ kind: "call", id: item.id, call: toCallView(view, item, entry, results.get(item.id)) }]
    default:
      return []
  }
}

function toCallView(view: ConversationView, call: Call, entry: Entry, result: Result | undefined): CallView {
  const appTool = view.run?.appTools.find((tool) => tool.name === call.tool)
  const requested: CallView = { id: call.id, call, phase: "requested", requestedAt: entry.at, appTool }
  // A result that comes in the same entry as its call is that of a tool which the model's provider ran.
  return result ? { ...requested, phase: "closed", providerRanIt: true, result, endedAt: entry.at } : requested
}

function toProgramCalls(view: ConversationView, entry: Entry, { parent, calls = [], lines = [] }: CallsRequested): CallView[] {
  return calls.map((call, index) => ({ ...toCallView(view, call, entry, undefined), parent, line: lines[index] ?? 0 }))
}

function appendText(view: ConversationView, number: number, kind: "text" | "reasoning", offset: number, text: string): void {
  updateOpenTurn(view, (turn) => (turn.number === number ? appendToPart(turn, { kind, id: `${turn.key}-${kind}`, text: "" }, offset, text) : turn))
}

/**
 * Return the turn with `text` appended to one of its parts, which is created by the first piece. The offset counts bytes.
 * A piece whose offset is not the end of the part was applied before, or follows one that was lost: it is skipped, as the
 * entry of the ended turn brings the whole text.
 */
function appendToPart(turn: Turn, empty: StreamedPart, offset: number, text: string): Turn {
  const index = turn.parts.findIndex((part) => part.id === empty.id)
  const part = (turn.parts[index] ?? empty) as StreamedPart
  const bytes = part.bytes ?? 0
  if (bytes !== offset) return turn
  const longer = { ...part, text: part.text + text, bytes: bytes + encoder.encode(text).length }
  return { ...turn, parts: index < 0 ? [...turn.parts, longer] : turn.parts.with(index, longer) }
}

function updateOpenTurn(view: ConversationView, update: (turn: Turn) => Turn): void {
  const index = view.rows.findLastIndex((row) => row.kind === "turn")
  const turn = view.rows[index]
  if (turn?.kind === "turn" && turn.open) view.rows[index] = update(turn)
}

/** Update a call of the model, or of a program. */
function updateCall(view: ConversationView, id: string, update: Partial<CallView> | ((call: CallView) => Partial<CallView>)): void {
  const index = view.rows.findLastIndex((row) => row.kind === "turn" && listCalls(row.parts).some((call) => call.id === id))
  const turn = view.rows[index]
  if (turn?.kind !== "turn") return
  const change = (call: CallView): CallView => ({ ...call, ...(typeof update === "function" ? update(call) : update) })
  let head = turn.head
  const parts = turn.parts.map((part): TurnPart => {
    if (part.kind !== "call") return part
    if (part.id !== id) {
      if (!part.call.calls?.some((call) => call.id === id)) return part
      return { ...part, call: { ...part.call, calls: part.call.calls.map((call) => (call.id === id ? change(call) : call)) } }
    }
    const call = change(part.call)
    // Results follow the items of their turn in the history, in the order of their ends. Those of a program's calls do not.
    if (call.result !== part.call.result) head = call.result?.id ?? head
    return { ...part, call }
  })
  view.rows[index] = { ...turn, parts, head }
}

function rememberApproval(view: ConversationView, scope: "no" | "tool" | "conversation", callId: string): void {
  if (scope === "no") return
  const calls = view.rows.flatMap((row) => (row.kind === "turn" ? listCalls(row.parts) : []))
  const name = scope === "conversation" ? "*" : (calls.find((call) => call.id === callId)?.call.tool ?? "")
  view.remembered = [...view.remembered, name]
}

/** Remove items from the rows and from every branch that was left. */
function removeItems(view: ConversationView, ids: Set<string>): void {
  view.rows = withoutItems(view.rows, ids)
  view.leftRows = view.leftRows.map((rows) => withoutItems(rows, ids)).filter((rows) => rows.length)
}

function withoutItems(rows: Row[], ids: Set<string>): Row[] {
  return rows.flatMap((row): Row[] => {
    if (row.kind === "user" || row.kind === "note") return ids.has(row.item.id) ? [] : [row]
    if (row.kind === "ending") return ids.has(row.key) ? [] : [row]
    if (row.kind !== "turn") return [row]
    const parts = row.parts.filter((part) => !ids.has(part.id))
    return parts.length || !row.parts.length ? [{ ...row, parts }] : []
  })
}
