// The application's tools: what they are, and one run for each call, however often the call is told.

import type { Arguments, HandedCall, ToolCalls } from "./events.js";

const MOST_WORDS = 4000;
const MOST_TYPE = 100;

export interface Running {
  callId: string;
  conversationId: string;
  /** The division that it is for; empty if it is for none. */
  division: string;
  /** Aborted when the request is stopped. */
  signal: AbortSignal;
}

/** A tool that runs in the application. What it throws, the model is told. */
export interface Tool<A = Arguments> {
  description: string;
  /** JSON Schema of the arguments; left out for a tool that takes none. */
  parameters?: Record<string, unknown>;
  /** How long its result is awaited by the server. */
  timeoutSeconds?: number;
  /** Requests that it is for, as people would make them. */
  examples?: readonly string[];
  /** For a parameter, the tool that its value comes from: `{ code: "search_products" }`. */
  sources?: Readonly<Record<string, string>>;
  run(args: A, running: Running): unknown;
}

/** A tool whose arguments have a type of their own; the schema is what the model is held to. */
export function tool<A>(made: Tool<A>): Tool {
  return made as unknown as Tool;
}

/** A failure with a type and details that the model can act on. */
export class ToolError extends Error {
  constructor(
    message: string,
    readonly errorType = "execution_error",
    readonly details: Record<string, unknown> = {},
  ) {
    super(message);
    this.name = "ToolError";
  }
}

export interface ToolResult {
  toolCallId: string;
  result?: unknown;
  error?: unknown;
}

export class LocalTools {
  private readonly runs = new Map<string, Promise<ToolResult>>();
  private abort = new AbortController();

  constructor(private readonly tools: Readonly<Record<string, Tool>>) {}

  /** As the server takes them. */
  definitions(): unknown[] {
    return Object.entries(this.tools).map(([name, { run: _, ...said }]) => ({ name, ...said }));
  }

  /** The results of those that are ours, run side by side; nothing if they were stopped meanwhile. */
  async results(handed: ToolCalls): Promise<ToolResult[] | undefined> {
    const abort = this.abort;
    const ours = handed.toolCalls.filter((call) => Object.hasOwn(this.tools, call.name));
    const stopped = new Promise<undefined>((resolve) => abort.signal.addEventListener("abort", () => resolve(undefined)));
    const all = Promise.all(ours.map((call) => this.once(call, handed)));
    return Promise.race([all, stopped]);
  }

  stop(): void {
    this.abort.abort();
    this.abort = new AbortController();
  }

  /** The request has ended: nobody asks for its results again. */
  over(): void {
    this.runs.clear();
  }

  private once(call: HandedCall, handed: ToolCalls): Promise<ToolResult> {
    let run = this.runs.get(call.id);
    if (!run) {
      run = this.run(call, handed);
      this.runs.set(call.id, run);
    }
    return run;
  }

  private async run(call: HandedCall, { conversationId, division = "" }: ToolCalls): Promise<ToolResult> {
    const running = { callId: call.id, conversationId, division, signal: this.abort.signal };
    try {
      const result = await this.tools[call.name]?.run(call.arguments, running);
      JSON.stringify(result); // what cannot be written is the tool's failure, not the client's
      return { toolCallId: call.id, result: result === undefined ? null : result };
    } catch (error) {
      return { toolCallId: call.id, error: problem(error) };
    }
  }
}

/** As the server takes it: words and a type that are too long are cut, a type that is missing is the usual one. */
function problem(error: unknown): Record<string, unknown> {
  if (error instanceof ToolError) {
    const error_type = cut(error.errorType, MOST_TYPE) || "execution_error";
    return { error: cut(error.message, MOST_WORDS), error_type, details: error.details };
  }
  const words = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { error: cut(words, MOST_WORDS) };
}

/** The server counts characters, and takes no half of one. */
function cut(text: string, most: number): string {
  return Array.from(text.slice(0, 2 * most)).slice(0, most).join("");
}
