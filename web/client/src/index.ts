// A conversation with a Toolyard server whose tools run in the application: in the browser and in Node.

export { createClient } from "./client.js";
export type { Client, ClientOptions, SendOptions } from "./client.js";
export type {
  ApprovalRequired,
  Arguments,
  Citation,
  ClientCall,
  ClientEvent,
  Final,
  Json,
  ModelError,
  Problem,
  QuestionAsked,
  ReasoningDelta,
  StopReason,
  TextCited,
  TextDelta,
  ToolProgress,
  ToolStatus,
  TurnRestarted,
} from "./events.js";
export { ConnectionLostError, ToolyardError } from "./http.js";
export type { McpClient, McpTool } from "./mcpServers.js";
export { ToolError, tool } from "./tools.js";
export type { Tool, ToolContext } from "./tools.js";
