// The application's tools: their definitions, and one run for each call, however often the server hands the call out.

import type { Arguments, HandedOutCall, ToolCalls } from "./events.js";
import type { ToolyardError } from "./http.js";

const MAX_ERROR_CHARS = 4000;
const MAX_ERROR_TYPE_CHARS = 100;
const MAX_RESULTS_PER_POST = 1000;
export const DEFAULT_TIMEOUT_S = 600;
/** The server waits no longer either. A timer for more than 24 days fires at once. */
const MAX_TIMEOUT_S = 86_400;
/** Of all results in one request. The server takes 8 MiB. */
const MAX_RESULT_BYTES = 8_000_000;

/** What a tool knows of the call that it runs for. */
export interface ToolContext {
  callId: string;
  conversationId: string;
  /** The division that the call is for; empty for none. */
  division: string;
  /** Aborted when the request is stopped. */
  signal: AbortSignal;
}

/** A tool that runs in the application. An error that it throws is sent to the model. */
export interface Tool<A = Arguments> {
  description: string;
  /** JSON Schema of the arguments; left out for a tool without arguments. */
  parameters?: Record<string, unknown>;
  /** How long the client and the server wait for the result; 600 by default. */
  timeoutSeconds?: number;
  /** The tool changes nothing. Unset means that it may. */
  readOnly?: boolean;
  /** The tool may overwrite or delete data that cannot be restored. */
  destructive?: boolean;
  /** The tool reaches beyond the application: the web, other people. */
  openWorld?: boolean;
  /** A second call with the same arguments has no further effect. */
  idempotent?: boolean;
  /** Requests that the tool is for, in the words of users; `{name}` stands for the value of a parameter. */
  examples?: readonly string[];
  /** Further such requests that are statements: the server's offline model asks before it runs the tool. */
  propose?: readonly string[];
  /** For a parameter, the tool that its value comes from: `{ code: "search_products" }`. */
  sources?: Readonly<Record<string, string>>;
  run(args: A, context: ToolContext): unknown;
}

/** Return a tool whose arguments have a type of their own. Nothing checks the type: the schema binds the model. */
export function tool<A>(definition: Tool<A>): Tool {
  return definition as unknown as Tool;
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
  /** The run of each call, kept after it has ended: a call that is handed out again gets the result of its first run. */
  private readonly runs = new Map<string, Promise<ToolResult>>();
  private abort = new AbortController();
  private maxResults = MAX_RESULTS_PER_POST;
  /** The results that were returned last, which the server may refuse. */
  private posted: ToolResult[] = [];
  /** Calls whose result was replaced by an error because the server refused it. */
  private replaced = new Set<string>();

  /** `loadMore` returns tools that are known only after a request, under names that are not `taken`. */
  constructor(
    private tools: Readonly<Record<string, Tool>>,
    private loadMore: ((taken: readonly string[]) => Promise<Record<string, Tool>>) | undefined = undefined,
  ) {}

  /** Load the remaining tools, once. Throws if that fails; the next call tries again. */
  async load(): Promise<void> {
    const loaded = await this.loadMore?.(Object.keys(this.tools));
    this.tools = { ...loaded, ...this.tools };
    this.loadMore = undefined;
  }

  /** Return the definitions of the tools as the server takes them. */
  listDefinitions(): unknown[] {
    return Object.entries(this.tools).map(([name, { run: _, ...definition }]) => ({
      name,
      ...definition,
      ...(definition.timeoutSeconds === undefined ? {} : { timeoutSeconds: getTimeout(definition) }),
    }));
  }

  /**
   * Run the calls of our tools in parallel and return their results, or undefined if they were stopped. Only as many
   * results are returned as one request may carry: the server hands the other calls out again, and `runs` has their results.
   */
  async runCalls(handedOut: ToolCalls): Promise<ToolResult[] | undefined> {
    const abort = this.abort; // `stop` replaces it
    const ours = handedOut.toolCalls.filter((call) => Object.hasOwn(this.tools, call.name));
    const finished = new AbortController(); // removes the listener below: a signal may outlive many calls
    const stopped = new Promise<undefined>((resolve) => {
      abort.signal.addEventListener("abort", () => resolve(undefined), { signal: finished.signal });
    });
    const all = Promise.all(ours.map((call) => this.runOnce(call, handedOut)));
    const results = await Promise.race([all, stopped]);
    finished.abort();
    this.posted = takeFitting(results ?? []).slice(0, this.maxResults);
    return results && this.posted;
  }

  /**
   * Return fewer results from now on, because the server or a proxy refused those that were posted last. A single result
   * that is refused becomes an error. Return false if that error was refused too.
   */
  reduceResults(error: ToolyardError): boolean {
    const [first, ...others] = this.posted;
    if (others.length) {
      this.maxResults = Math.floor(this.posted.length / 2);
      return true;
    }
    if (!first || this.replaced.has(first.toolCallId)) return false;
    this.replaced.add(first.toolCallId);
    const type = error.status === 413 ? "too_large" : "validation_error";
    const replacement = toProblem(new ToolError(`the tool ran, but its result was not taken: ${error.message}`, type));
    this.runs.set(first.toolCallId, Promise.resolve({ toolCallId: first.toolCallId, error: replacement }));
    return true;
  }

  /** Abort the calls that are running. Calls that start later have a signal of their own. */
  stop(): void {
    this.abort.abort();
    this.abort = new AbortController();
  }

  /** Forget the results of a run that has ended: its calls are not handed out again. */
  clear(): void {
    this.runs.clear();
    this.maxResults = MAX_RESULTS_PER_POST;
    this.replaced.clear();
  }

  private runOnce(call: HandedOutCall, handedOut: ToolCalls): Promise<ToolResult> {
    let run = this.runs.get(call.id);
    if (!run) {
      run = this.run(call, handedOut);
      this.runs.set(call.id, run);
    }
    return run;
  }

  private async run(call: HandedOutCall, { conversationId, division = "" }: ToolCalls): Promise<ToolResult> {
    const context = { callId: call.id, conversationId, division, signal: this.abort.signal };
    try {
      const calledTool = this.tools[call.name];
      const result = await withTimeout(calledTool?.run(call.arguments, context), getTimeout(calledTool), context.signal);
      return { toolCallId: call.id, result: copyAsJson(result) };
    } catch (error) {
      return { toolCallId: call.id, error: toProblem(error) };
    }
  }
}

function getTimeout(definition: Pick<Tool, "timeoutSeconds"> | undefined): number {
  return Math.min(definition?.timeoutSeconds ?? DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S);
}

/** Return the result of a tool. Throws ToolError after the timeout, which a stop switches off. */
async function withTimeout(work: unknown, seconds: number, stopped: AbortSignal): Promise<unknown> {
  let clear = (): void => {};
  const timeout = new Promise<never>((_, reject) => {
    const message = `no answer within ${seconds} s; it may have taken effect, or still take it`;
    const timer = setTimeout(() => reject(new ToolError(message, "timeout")), seconds * 1000);
    clear = () => clearTimeout(timer);
  });
  stopped.addEventListener("abort", clear);
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clear();
    stopped.removeEventListener("abort", clear);
  }
}

/**
 * Return a copy of a result as JSON. The copy is the result at the time the tool returned it, whatever the application
 * changes later while other calls still run. Throws if it is not JSON or too large: that is an error of the tool.
 */
function copyAsJson(result: unknown): unknown {
  const text = JSON.stringify(result) as string | undefined;
  if (text === undefined) return null;
  const size = countBytes(text);
  if (size <= MAX_RESULT_BYTES) return JSON.parse(text);
  const message = `the tool ran, but its result of ${size} bytes is more than a server takes; ask for less, or have the tool return a link`;
  throw new ToolError(message, "too_large");
}

/** Return the results that one request can carry, at least the first. */
function takeFitting(results: ToolResult[]): ToolResult[] {
  let size = 0;
  return results.filter((result, index) => (size += countBytes(JSON.stringify(result))) <= MAX_RESULT_BYTES || index === 0);
}

const countBytes = (text: string): number => new TextEncoder().encode(text).length;

/** Return an error as the server takes it, with a message and a type that are cut to the allowed length. */
function toProblem(error: unknown): Record<string, unknown> {
  if (error instanceof ToolError) {
    const error_type = cut(error.errorType, MAX_ERROR_TYPE_CHARS) || "execution_error";
    return { error: cut(error.message, MAX_ERROR_CHARS), error_type, details: copyDetails(error.details) };
  }
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { error: cut(message, MAX_ERROR_CHARS) };
}

/** Return the details as JSON, or none if they cannot be written: they must not hide the error itself. */
function copyDetails(details: Record<string, unknown>): unknown {
  try {
    return copyAsJson(details);
  } catch {
    return {};
  }
}

/** Cut a text by characters, as the server counts them, not by UTF-16 units: half a character is not valid. */
function cut(text: string, maxChars: number): string {
  return Array.from(text.slice(0, 2 * maxChars)).slice(0, maxChars).join("");
}
