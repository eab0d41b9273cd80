// The events that a server sends to an application. Events of an unknown type, as a newer server may send, are skipped.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Arguments = Record<string, Json>;

export interface TextDelta {
  type: "text.delta";
  content: string;
}

/** The source of a piece of text. `start` and `end` count the characters of the turn's text; an emoji is one character. */
export interface Citation {
  start: number;
  end: number;
  url?: string;
  title?: string;
  quote?: string;
}

/** The sources of the text of the turn that has just ended. */
export interface TextCited {
  type: "text.cited";
  citations: Citation[];
}

export interface ReasoningDelta {
  type: "reasoning.delta";
  content: string;
}

/** A call has started or finished, on the server or in the application. */
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

/** A call of a tool of the application. The client runs it; the event is for display. */
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

/** The turn starts again, and its text so far is void. */
export interface TurnRestarted {
  type: "turn.restarted";
  turn: number;
  /** Why the text does not fit the output schema; absent if the server was started again. */
  error?: string;
}

export interface ModelError {
  type: "error";
  error: string;
  error_type: string;
}

export type StopReason = "done" | "max_tool_turns" | "max_session_turns" | "limit" | "cancelled" | "failed";

/** An error as a sentence, a type and details. */
export interface Problem {
  error: string;
  error_type: string;
  details?: Record<string, Json>;
}

/** The end of a request: the model's message and why it stopped. If it failed, the content is a sentence for people. */
export interface Final {
  type: "message";
  conversationId: string;
  runId: string;
  correlationId: string;
  message: { role: "assistant"; content: string | null };
  stopReason: StopReason;
  detail?: string;
  /** Why the request failed; null or absent if it did not. */
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

/** A call that the server hands out to the application. */
export interface HandedOutCall {
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
  toolCalls: HandedOutCall[];
  division?: string;
}

/** The run waits for a decision, or for a tool of another application. */
interface Waiting {
  type: "waiting";
  conversationId: string;
  runId: string;
}

interface Done {
  type: "done";
  ending: string;
}

/** The event that says what the client has to do next. */
export type Reply = ToolCalls | Waiting | Final;
export type ServerEvent = ClientEvent | Reply | Started | Done;

const KNOWN_TYPES: ReadonlySet<string> = new Set<ServerEvent["type"]>([
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

/**
 * Return the event, or undefined if its type is not known. A notice is a sentence of the server about what other events
 * say already, for applications that show nothing but texts: it is skipped as well.
 */
export function parseEvent(json: string): ServerEvent | undefined {
  const event = JSON.parse(json) as ServerEvent & { notice?: string };
  return KNOWN_TYPES.has(event.type) && !event.notice ? event : undefined;
}
