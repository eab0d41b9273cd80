// Made by web/make_types.py from the server's structs. Not for editing.

export interface ArgumentsAppended {
  type: "arguments.appended"
  turn: number
  index: number
  tool: string
  offset: number
  text: string
}

export interface AvailableTool {
  server_id: string
  server_name: string
  server_slug: string
  tool_name: string
  tool_description: string
  input_schema: Record<string, unknown>
}

export interface AvailableTools {
  available_tools: Array<AvailableTool>
  count: number
  success: boolean
}

export interface Call {
  type: "call"
  id: string
  at: number
  tool: string
  arguments: Record<string, unknown>
  provider_id?: string
  unreadable?: string
  ran_at?: string
  seal?: Seal | null
  confirm?: "ask" | "given" | "no"
}

export interface CallAnswer {
  call_id: string
  message: string
  success: boolean
}

export interface CallAnswered {
  type: "call.answered"
  call_id: string
  by: string
  reply: "accepted" | "cancelled" | "declined"
  content?: Record<string, unknown>
}

export interface CallApproved {
  type: "call.approved"
  call_id: string
  by: string
  arguments?: Record<string, unknown> | null
  remember?: "conversation" | "no" | "tool"
}

export interface CallDenied {
  type: "call.denied"
  call_id: string
  by: string
  reason?: string
}

export interface CallDigest {
  at: number
  tool: string
  outcome: "cancelled" | "denied" | "error" | "expired" | "ok" | "timeout" | "unknown" | null
  took_ms: number | null
  error: string
  unknown: boolean
}

export interface CallEnded {
  type: "call.ended"
  result: Result
}

export interface CallJudged {
  type: "call.judged"
  call_id: string
  verdict: "allow" | "ask" | "deny"
  rule: string
  exclusive?: boolean
  expires_at?: number
}

export interface CallParked {
  type: "call.parked"
  call_id: string
  kind: "client" | "question"
  expires_at: number
  question?: Record<string, unknown>
  resume_token?: string
}

export interface CallProgressed {
  type: "call.progressed"
  call_id: string
  offset: number
  progress: number
  total?: number | null
  message?: string
}

export interface CallSpan {
  id: string
  tool: string
  arguments: Record<string, unknown>
  requested_at: number
  turn: number
  edited: Record<string, unknown> | null
  provider_ran_it: boolean
  judged_at: number | null
  verdict: "allow" | "ask" | "deny" | null
  rule: string
  asked_at: number | null
  decided_at: number | null
  decided_by: string
  started_at: number | null
  attempts: number
  parked_at: number | null
  parked_for: "client" | "question" | null
  answered_at: number | null
  answered_by: string
  ended_at: number | null
  outcome: "cancelled" | "denied" | "error" | "expired" | "ok" | "timeout" | "unknown" | null
  error: Problem | null
  duration_ms: number | null
}

export interface CallStarted {
  type: "call.started"
  call_id: string
  epoch: number
  attempt?: number
}

export interface Called {
  call_id: string
  run_id: string
  message: string
  success: boolean
}

export interface CalledFunction {
  name: string
  arguments: string
}

export interface Caller {
  user?: string
  roles?: Array<string>
  tenant?: string
  division?: string
  locale?: string
}

export interface Cancelled {
  message: string
  success: boolean
}

export interface Citation {
  start: number
  end: number
  url?: string
  title?: string
  quote?: string
}

export interface Compaction {
  started_at: number
  at: number
  tokens_before: number
  tokens_after: number
  results_dropped: number
  summarised: boolean
  problem: Problem | null
  usage: Usage
}

export interface Conversation {
  id: string
  user: string
  title: string
  description: string
  created_at: string
  updated_at: string
  system_prompt: string
  max_turns: number
  max_tokens: number | null
  max_messages: number | null
  model: string
  language: string
  web_search: "" | "auto" | "duckduckgo" | "mcp" | "native" | "off"
  status: "idle" | "running" | "waiting"
  enabled_tools: Array<EnabledTool>
  context: Record<string, NoteBody>
  messages_in_context: number
  tokens_in_context: number
  messages: Array<Message>
}

export interface ConversationAnswer {
  conversation: Conversation
  message: string
  success: boolean
}

export interface ConversationChanged {
  type: "conversation.changed"
  settings: Settings
}

export interface ConversationList {
  conversations: Array<ConversationSummary>
  count: number
  next: string | null
  message: string
  success: boolean
}

export interface ConversationOpened {
  type: "conversation.opened"
  owner: Caller
  settings: Settings
}

export interface ConversationSummary {
  id: string
  user: string
  title: string
  description: string
  created_at: string
  updated_at: string
}

export type Durable = ConversationOpened | ConversationChanged | MessageAdded | MessageRemoved | HistoryCompacted | RunQueued | RunStarted | StopRequested | RunSuspended | RunEnded | TurnStarted | TurnEnded | TurnFailed | CallJudged | CallApproved | CallDenied | CallStarted | CallParked | CallAnswered | CallEnded

export interface EnabledTool {
  server_id: string
  tool_name: string
  available?: boolean
}

export interface EnabledTools {
  enabled_tools: Array<EnabledTool>
  count: number
  message: string
  success: boolean
}

export interface Entry {
  conversation: string
  seq: number
  at: number
  event: Durable
  run?: string
  correlation_id?: string
  epoch?: number
  format?: number
}

export interface ErrorBody {
  error: string
  error_type: string
  correlation_id: string
  details: Record<string, unknown>
  ok: boolean
  success: boolean
}

export interface FilePart {
  type: "file"
  url: string
  name: string
}

export type Fleeting = TextAppended | ReasoningAppended | ArgumentsAppended | CallProgressed

export interface HistoryCompacted {
  type: "history.compacted"
  through: string
  items?: Array<Item>
  dropped?: Array<string>
  summarised?: boolean
  problem?: Problem | null
  usage?: Usage
  tokens_before?: number
  tokens_after?: number
}

export interface ImagePart {
  type: "image"
  url: string
}

export type Item = SystemText | UserMessage | ModelText | Reasoning | Call | Result

export interface KeptTurn {
  url: string
  headers: Record<string, string>
  request: unknown
  response: string
  cut: boolean
}

export interface KeptTurnAnswer {
  turn: KeptTurn
  success: boolean
}

export interface Latency {
  at: number
  p50_ms: number
  p95_ms: number
}

export interface Limits {
  turns_per_request?: number
  turns_per_conversation?: number
  run_seconds?: number
  run_tokens?: number
  calls_per_turn?: number
  parallel_calls?: number
  queued_messages?: number
}

export interface LiveAnswer {
  runs: Array<OpenRun>
  count: number
  success: boolean
}

export interface McpClient {
  modern?: boolean
  capabilities?: Array<"elicitation" | "roots" | "sampling">
}

export interface Me {
  user: string
  roles: Array<string>
  tenant: string
  division: string
  keyless: boolean
  model: string
  prices: Record<string, Price>
  keeps_requests: boolean
  success: boolean
}

export interface Message {
  role: string
  content: string | null
  id: string
  timestamp: string
  tool_calls: Array<ToolCall> | null
  tool_call_id: string | null
  name: string | null
  citations: Array<Citation>
}

export interface MessageAdded {
  type: "message.added"
  item: Item
}

export interface MessageRemoved {
  type: "message.removed"
  ids: Array<string>
}

export interface ModelCard {
  id: string
  provider: string
  name: string
  default: boolean
  context_tokens: number | null
  input: Array<"file" | "image" | "text">
  native_tools: Array<string>
  available: boolean
  reason: string
}

export interface ModelFigures {
  model: string
  turns: number
  failed: number
  input_tokens: number
  output_tokens: number
  p50_ms: number | null
  p95_ms: number | null
  times: Array<Latency>
}

export interface ModelList {
  models: Array<ModelCard>
  patterns: Array<string>
  hint: string
  success: boolean
}

export interface ModelText {
  type: "model_text"
  id: string
  at: number
  text: string
  citations?: Array<Citation>
  seal?: Seal | null
  suggestions?: Array<Suggestion>
}

export interface Note {
  name: string
  text: string
  json?: boolean
  keywords?: Array<string>
  files?: Array<string>
}

export interface NoteBody {
  descriptive_name: string
  content: string
  related_keywords: Array<string>
  related_files: Array<string>
}

export interface OpenCall {
  id: string
  tool: string
  phase: "allowed" | "asking" | "closed" | "parked" | "requested" | "running"
  expires_at: number
}

export interface OpenRun {
  conversation: string
  title: string
  user: string
  run_id: string
  correlation_id: string
  status: "ended" | "queued" | "running" | "waiting"
  model: string
  started_at: number
  queued: number
  calls: Array<OpenCall>
  may_stop: boolean
}

export interface Overview {
  since: number
  until: number
  step_s: number
  points: Array<Point>
  tools: Array<ToolFigures>
  models: Array<ModelFigures>
}

export interface OverviewAnswer {
  overview: Overview
  complete: boolean
  success: boolean
}

export type Part = TextPart | ImagePart | FilePart

export interface Point {
  at: number
  runs: number
  failed: number
  calls: number
  call_errors: number
  input_tokens: number
  output_tokens: number
  call_p50_ms: number | null
  call_p95_ms: number | null
  turn_p50_ms: number | null
  turn_p95_ms: number | null
}

export interface Price {
  input: number
  output: number
  cached: number | null
  currency: string
}

export interface Problem {
  error: string
  error_type: string
  details?: Record<string, unknown>
}

export interface ProviderOptions {
  max_uses?: number
  allowed_domains?: Array<string>
  blocked_domains?: Array<string>
  user_location?: UserLocation | null
  stores?: Array<string>
}

export interface Reasoning {
  type: "reasoning"
  id: string
  at: number
  text: string
  provider?: string
  signature?: string
}

export interface ReasoningAppended {
  type: "reasoning.appended"
  turn: number
  offset: number
  text: string
}

export interface Result {
  type: "result"
  id: string
  at: number
  call_id: string
  tool: string
  outcome: "cancelled" | "denied" | "error" | "expired" | "ok" | "timeout" | "unknown"
  content: string
  error?: Problem | null
  handle?: string
  whole_bytes?: number
  duration_ms?: number
  ran_at?: string
  seal?: Seal | null
  parts?: Array<Part>
  native?: string
}

export interface RunAnswer {
  run: Trace
  success: boolean
}

export interface RunDigest {
  run_id: string
  conversation: string
  title: string
  correlation_id: string
  user: string
  status: "ended" | "queued" | "running" | "waiting"
  model: string
  queued_at: number
  took_ms: number
  ending: "cancelled" | "done" | "failed" | "limit" | null
  detail: string
  usage: Usage
  turns: Array<TurnDigest>
  calls: Array<CallDigest>
}

export interface RunEnded {
  type: "run.ended"
  ending: "cancelled" | "done" | "failed" | "limit"
  detail?: string
  message?: ModelText | null
  run_id?: string
}

export interface RunList {
  runs: Array<RunDigest>
  count: number
  next: string | null
  success: boolean
}

export interface RunQueued {
  type: "run.queued"
  caller: Caller
  input: Array<Item>
  app_tools?: Array<Tool>
  tool_choice?: string
  model?: string
  limits?: Limits | null
  web_search?: "" | "auto" | "duckduckgo" | "mcp" | "native" | "off"
  context?: Record<string, Note>
  language?: string
  mcp_client?: McpClient | null
}

export interface RunStarted {
  type: "run.started"
  model: string
  limits: Limits
  window?: number
  language?: string
}

export interface RunSuspended {
  type: "run.suspended"
  waiting_for: Array<string>
  wake_at: number
}

export interface Seal {
  provider: string
  data: string
}

export interface ServerList {
  servers: Array<ShownServer>
  count: number
  success: boolean
}

export interface ServerTools {
  server_id: string
  server_name: string
  status: string
  tools: Array<ShownTool>
  message: string
  success: boolean
}

export interface Settings {
  title?: string
  description?: string
  system_prompt?: string
  context?: Record<string, Note>
  model?: string
  limits?: Limits | null
  tools?: Array<string> | null
  max_messages?: number
  max_tokens?: number
  web_search?: "" | "auto" | "duckduckgo" | "mcp" | "native" | "off"
  language?: string
  ephemeral?: boolean
  unlisted?: boolean
}

export interface ShownServer {
  id: string
  name: string
  slug: string
  config: Record<string, unknown>
  status: string
  created_at: string | null
  started_at: string | null
  stopped_at: string | null
  error_message: string | null
  process_id: number | null
  protocol: string
  restarts: number
  sessions: number
  tools: number
  quarantined: number
  rejected: number
  configured: boolean
  log: Array<string>
}

export interface ShownTool {
  name: string
  description: string
  input_schema: Record<string, unknown>
  offered_as: string
  state: string
  difference: string
}

export interface StopRequested {
  type: "stop.requested"
  by: string
  call_id?: string
  detail?: string
}

export interface Suggestion {
  label: string
  text: string
}

export interface SystemText {
  type: "system_text"
  id: string
  at: number
  text: string
}

export interface TextAppended {
  type: "text.appended"
  turn: number
  offset: number
  text: string
}

export interface TextPart {
  type: "text"
  text: string
}

export interface Tool {
  name: string
  description?: string
  parameters?: Record<string, unknown>
  venue?: "client" | "function" | "mcp" | "provider"
  enabled?: boolean
  roles?: Array<string>
  own_check?: boolean
  divisions?: Array<string>
  approval?: "always" | "ask" | "never"
  timeout_s?: number
  approval_s?: number
  client_s?: number
  retries?: number
  read_only?: boolean
  destructive?: boolean
  open_world?: boolean
  idempotent?: boolean
  exclusive?: boolean
  max_result_bytes?: number
  examples?: Array<string>
  built_in?: boolean
  sources?: Record<string, string>
  options?: ProviderOptions | null
  server?: string
  remote?: string
  alias?: string
}

export interface ToolCall {
  id: string
  function: CalledFunction
  type: string
}

export interface ToolCard {
  name: string
  description: string
  parameters: Record<string, unknown>
  venue: string
  server_id: string
  roles: Array<string>
  own_check: boolean
  divisions: Array<string>
  approval: string
  read_only: boolean
  destructive: boolean
  open_world: boolean
  idempotent: boolean
  exclusive: boolean
  timeout_s: number
  examples: Array<string>
}

export interface ToolFigures {
  tool: string
  calls: number
  errors: number
  p50_ms: number | null
  p95_ms: number | null
  times: Array<Latency>
  last_at: number
  last_error: string
  last_error_at: number | null
}

export interface ToolList {
  tools: Array<ToolCard>
  count: number
  success: boolean
}

export interface Trace {
  run_id: string
  conversation: string
  correlation_id: string
  user: string
  status: "ended" | "queued" | "running" | "waiting"
  queued_at: number
  last_at: number
  model: string
  ending: "cancelled" | "done" | "failed" | "limit" | null
  detail: string
  started_at: number | null
  ended_at: number | null
  usage: Usage
  turns: Array<TurnSpan>
  calls: Array<CallSpan>
  waits: Array<Wait>
  compactions: Array<Compaction>
}

export interface TraceAnswer {
  correlation_id: string
  runs: Array<Trace>
  earlier: number
  success: boolean
}

export interface TurnDigest {
  at: number
  model: string
  took_ms: number
  failed: boolean
  usage: Usage
}

export interface TurnEnded {
  type: "turn.ended"
  items: Array<Item>
  finish: "calls" | "cancelled" | "length" | "paused" | "refused" | "stop"
  usage?: Usage
  model?: string
}

export interface TurnFailed {
  type: "turn.failed"
  problem: Problem
}

export interface TurnSpan {
  number: number
  started_at: number
  ended_at: number | null
  offered: number
  search: string
  model: string
  finish: "calls" | "cancelled" | "length" | "paused" | "refused" | "stop" | null
  problem: Problem | null
  usage: Usage
  restarted: number
}

export interface TurnStarted {
  type: "turn.started"
  number: number
  epoch: number
  offer?: string
  offered?: number
  added?: Record<string, string>
  removed?: Array<string>
  search?: string
}

export interface Usage {
  input_tokens?: number
  output_tokens?: number
  cached_tokens?: number
}

export interface UserLocation {
  city?: string
  region?: string
  country?: string
  timezone?: string
}

export interface UserMessage {
  type: "user_message"
  id: string
  at: number
  parts: Array<Part>
}

export interface Wait {
  started_at: number
  waiting_for: Array<string>
  ended_at: number | null
}
