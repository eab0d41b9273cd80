// What the page shows of a conversation. `fold.ts` builds it from the event stream, components render it.
import type { ApprovalRecord, ApprovalTerms, Call, CallAnswered, CallParked, Citation, Item, Result, RunEnded, Settings, Suggestion, SystemText, Tool, UntrustedSource, Usage, UserMessage } from "../wire/types"
import { NO_SPENDING, type Spending } from "./spending"

/** A program is nested from its first call on: it waits for its calls, or computes between them. */
export type CallPhase = "written" | "requested" | "asking" | "allowed" | "running" | "nested" | "parked" | "closed"

export interface CallView {
  id: string
  call: Call
  phase: CallPhase
  requestedAt: number
  providerRanIt?: boolean
  appTool?: Tool | undefined
  /** The title of the tool, where the server has sent it with the call. */
  title?: string
  rule?: string
  verdict?: "allow" | "ask" | "deny"
  expiresAt?: number
  sources?: UntrustedSource[]
  /** Who may decide the call, and how many of them; null means its owner or an approver. */
  terms?: ApprovalTerms | null
  /** The people who have approved a call that needs more of them. */
  approvedBy?: string[]
  /** Whether the user may decide the call, where the server has said so. */
  mayDecide?: boolean
  decision?: "approved" | "denied"
  decidedBy?: string
  /** Each person's decision on the call, with its reason. */
  decisions?: ApprovalRecord[]
  edited?: Record<string, unknown> | undefined
  startedAt?: number
  attempt?: number
  progress?: { done: number; total?: number | null; message?: string; offset: number }
  parked?: CallParked
  answered?: CallAnswered
  stopping?: boolean
  result?: Result
  endedAt?: number
  /** What a program had printed when it last began to wait. */
  printed?: string
  /** The calls that a program has made so far, in the order in which it made them. */
  calls?: CallView[]
  /** The call whose program makes this one. */
  parent?: string
  /** The line of the program that makes this call; 0 if it is not known. */
  line?: number
}

/** A part that grows while its turn is open. `bytes` is its length in UTF-8, as the server counts offsets. */
export type StreamedPart =
  | { kind: "text"; id: string; text: string; bytes?: number; citations?: Citation[] | undefined; suggestions?: Suggestion[] | undefined }
  | { kind: "reasoning"; id: string; text: string; bytes?: number }
  | { kind: "draft"; id: string; tool: string; text: string; bytes?: number }

export type TurnPart = StreamedPart | { kind: "call"; id: string; call: CallView }

export interface UserRow {
  kind: "user"
  key: string
  at: number
  item: UserMessage
}

export interface NoteRow {
  kind: "note"
  key: string
  at: number
  item: SystemText
}

/** A model request and its response. Number 0 is a call that a user made by hand. */
export interface Turn {
  kind: "turn"
  key: string
  at: number
  number: number
  parts: TurnPart[]
  open: boolean
  restarted: number
  model: string
  /** The id of its last item in the history, to which a rewind can return; empty while it has none. */
  head: string
  usage?: Usage | undefined
  finish?: string
  /** The run that it is the last turn of; missing for other turns. */
  run?: string
  /** What the whole run has used and cost, at the last turn of a run that is done. */
  spending?: Spending
}

/** The end of a run that was not simply done: it failed, was stopped, or reached a limit. */
export interface RunEnding {
  kind: "ending"
  key: string
  at: number
  run: string
  ending: RunEnded["ending"]
  detail: string
  message: string
  correlationId: string
  spending: Spending
}

export interface CompactionRow {
  kind: "compacted"
  key: string
  at: number
  how: "summarised" | "results" | "left out"
}

export type Row = UserRow | NoteRow | Turn | RunEnding | CompactionRow

export interface ActiveRun {
  id: string
  model: string
  startedAt: number
  correlationId: string
  appTools: Tool[]
  waiting: boolean
  /** The budget that it waits for; empty if it waits for calls. */
  budget: string
  stopping: boolean
  spending: Spending
}

/** A run that waits for the one before it. Its messages become rows when it starts. */
export interface QueuedRun {
  run: string
  at: number
  input: Item[]
  appTools: Tool[]
}

export interface ConversationView {
  /** The number of the last entry in the view. */
  seq: number
  title: string
  owner: string
  rows: Row[]
  queue: QueuedRun[]
  run: ActiveRun | null
  /** The model that was chosen for the conversation; empty if the server's default answers. */
  model: string
  settings: Settings
  /** The enabled tools; null if all are. */
  tools: string[] | null
  /** The tools that were approved for the rest of the conversation; `*` stands for all. */
  remembered: string[]
  /** The rows that the conversation had before its rewinds, oldest first, without those that another list has as well. */
  leftRows: Row[][]
  /** What all runs have used and cost, also those whose rows were left or removed. */
  spending: Spending
}

export const EMPTY_VIEW: ConversationView = { seq: 0, title: "", owner: "", rows: [], queue: [], run: null, model: "", settings: {}, tools: null, remembered: [], leftRows: [], spending: NO_SPENDING }

/** Return the calls among the parts of a turn, each program followed by the calls that it has made. */
export function listCalls(parts: TurnPart[]): CallView[] {
  return parts.flatMap((part) => (part.kind === "call" ? [part.call, ...(part.call.calls ?? [])] : []))
}

/** Return whether the server has not decided yet if a call needs an approval. */
export function isUnjudged(call: CallView): boolean {
  return call.phase === "requested" && !call.verdict
}

/** Return whether a call of the last turn has no verdict yet, so that the number of approvals to ask for is not known. */
export function hasUnjudgedCalls(view: ConversationView): boolean {
  const last = view.rows.findLast((row) => row.kind === "turn")
  return last ? listCalls(last.parts).some(isUnjudged) : false
}

/** Return the calls that wait for a decision, an answer or the application, oldest first. */
export function listWaitingCalls(view: ConversationView): CallView[] {
  const last = view.rows.findLast((row) => row.kind === "turn")
  if (!view.run || !last) return []
  return listCalls(last.parts).filter((call) => call.phase === "asking" || call.phase === "parked")
}
