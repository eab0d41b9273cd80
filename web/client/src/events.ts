// What a stream of the server tells an application. One of a kind that is not known here is passed over.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Arguments = Record<string, Json>;

export interface TextDelta {
  type: "text.delta";
  content: string;
}

/** Where a piece of a text comes from: its places count the characters of the turn's text, of which an emoji is one. */
export interface Citation {
  start: number;
  end: number;
  url?: string;
  title?: string;
  quote?: string;
}

/** Where the text of the turn that has just ended comes from. */
export interface TextCited {
  type: "text.cited";
  citations: Citation[];
}

export interface ReasoningDelta {
  type: "reasoning.delta";
  content: string;
}

/** A call began or ended, wherever it runs. */
export interface ToolStatus {
  type: "tool.status";
  state: "started" | "finished";
  name: string;
  call_id: string;
  arguments?: Arguments;
  ok?: boolean;
  outcome?: string;
  error?: string;
  error_type?: string;
  duration_ms?: number;
}

export interface ToolProgress {
  type: "tool.progress";
  name: string;
  call_id: string;
  progress: number;
  total?: number | null;
  message?: string;
}

/** A call for the application; the client runs it by itself. */
export interface ClientCall {
  type: "client.call";
  name: string;
  call_id: string;
  arguments: Arguments;
}

export interface ApprovalRequired {
  type: "approval.required";
  name: string;
  call_id: string;
  arguments: Arguments;
  reason: string;
}

export interface QuestionAsked {
  type: "question.asked";
  name: string;
  call_id: string;
  question: Record<string, Json>;
}

/** The text of this turn so far is void: it comes again. */
export interface TurnRestarted {
  type: "turn.restarted";
  turn: number;
}

export interface ModelError {
  type: "error";
  error: string;
  error_type: string;
}

export type StopReason = "done" | "max_tool_turns" | "max_session_turns" | "limit" | "cancelled" | "failed";

/** What went wrong, in words and as a type. */
export interface Problem {
  error: string;
  error_type: string;
  details?: Record<string, Json>;
}

/** How a request ended: what the model said, and why it stopped. Where it failed, the content is a sentence for people. */
export interface Final {
  type: "message";
  conversationId: string;
  runId: string;
  correlationId: string;
  message: { role: "assistant"; content: string | null };
  stopReason: StopReason;
  detail?: string;
  /** Why it failed; null or absent if it did not. */
  error?: Problem | null;
  overriddenTools?: string[];
}

export type ClientEvent =
  | TextDelta
  | TextCited
  | ReasoningDelta
  | ToolStatus
  | ToolProgress
  | ClientCall
  | ApprovalRequired
  | QuestionAsked
  | TurnRestarted
  | ModelError
  | Final;

export interface HandedCall {
  id: string;
  name: string;
  arguments: Arguments;
}

interface Started {
  type: "started";
  conversationId: string;
  runId: string;
}

export interface ToolCalls {
  type: "tool_calls";
  conversationId: string;
  runId: string;
  toolCalls: HandedCall[];
  division?: string;
}

/** The run waits for somebody else. */
interface Waiting {
  type: "waiting";
  conversationId: string;
  runId: string;
}

interface Done {
  type: "done";
  ending: string;
}

export type Answer = ToolCalls | Waiting | Final;
export type Told = ClientEvent | Answer | Started | Done;

const KNOWN: ReadonlySet<string> = new Set<Told["type"]>([
  "text.delta",
  "text.cited",
  "reasoning.delta",
  "tool.status",
  "tool.progress",
  "client.call",
  "approval.required",
  "question.asked",
  "turn.restarted",
  "error",
  "message",
  "started",
  "tool_calls",
  "waiting",
  "done",
]);

/** The object, or nothing for one that a newer server sends and this client does not know. */
export function read(body: string): Told | undefined {
  const told = JSON.parse(body) as Told;
  return KNOWN.has(told.type) ? told : undefined;
}
