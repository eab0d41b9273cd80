// What the page shows of a conversation: the fold of its entries. `fold.ts` makes it, components draw it.
import type { Call, CallAnswered, CallParked, Citation, Item, Result, RunEnded, Suggestion, SystemText, Tool, Usage, UserMessage } from "../wire/types"

export type Phase = "written" | "requested" | "asking" | "allowed" | "running" | "parked" | "closed"

export interface CallView {
  id: string
  call: Call
  phase: Phase
  requestedAt: number
  providerRanIt?: boolean
  appTool?: Tool | undefined
  rule?: string
  verdict?: "allow" | "ask" | "deny"
  expiresAt?: number
  decision?: "approved" | "denied"
  decidedBy?: string
  reason?: string
  edited?: Record<string, unknown> | undefined
  startedAt?: number
  attempt?: number
  progress?: { done: number; total?: number | null; message?: string; offset: number }
  parked?: CallParked
  answered?: CallAnswered
  stopping?: boolean
  result?: Result
  endedAt?: number
}

/** A part that grows while its turn is open; `bytes` counts what came, as the server counts. */
export type Stream =
  | { kind: "text"; id: string; text: string; bytes?: number; citations?: Citation[] | undefined; suggestions?: Suggestion[] | undefined }
  | { kind: "reasoning"; id: string; text: string; bytes?: number }
  | { kind: "draft"; id: string; tool: string; text: string; bytes?: number }

export type TurnPart = Stream | { kind: "call"; id: string; call: CallView }

export interface Said {
  kind: "said"
  key: string
  at: number
  item: UserMessage
}

export interface Note {
  kind: "note"
  key: string
  at: number
  item: SystemText
}

/** One model request and its reply; number 0 is a call that somebody made by hand. */
export interface Turn {
  kind: "turn"
  key: string
  at: number
  number: number
  parts: TurnPart[]
  open: boolean
  restarted: number
  model: string
  usage?: Usage | undefined
  finish?: string
}

export interface Ending {
  kind: "ending"
  key: string
  at: number
  run: string
  ending: RunEnded["ending"]
  detail: string
  message: string
  correlationId: string
}

export interface Compacted {
  kind: "compacted"
  key: string
  at: number
  how: "summarised" | "results" | "left out"
}

export type Row = Said | Note | Turn | Ending | Compacted

export interface OpenRun {
  id: string
  model: string
  startedAt: number
  correlationId: string
  appTools: Tool[]
  waiting: boolean
  stopping: boolean
}

export interface Queued {
  run: string
  at: number
  input: Item[]
  appTools: Tool[]
}

export interface View {
  seq: number
  title: string
  owner: string
  rows: Row[]
  queue: Queued[]
  run: OpenRun | null
  tools: string[] | null
  remembered: string[]
}

export const EMPTY: View = { seq: 0, title: "", owner: "", rows: [], queue: [], run: null, tools: null, remembered: [] }

/** Whether some call of the last turn is not judged yet, so that it is not known how many will ask. */
export function isJudging(view: View): boolean {
  const last = view.rows.findLast((row) => row.kind === "turn")
  return last?.parts.some((part) => part.kind === "call" && part.call.phase === "requested" && !part.call.verdict) ?? false
}

/** The calls that wait for a decision, an answer or the application, oldest first. */
export function waitingCalls(view: View): CallView[] {
  const last = view.rows.findLast((row) => row.kind === "turn")
  if (!view.run || !last) return []
  return last.parts.flatMap((part) => (part.kind === "call" && (part.call.phase === "asking" || part.call.phase === "parked") ? [part.call] : []))
}
