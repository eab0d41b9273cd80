// The application's tools: what they are, and one run for each call, however often the call is told.

import type { Arguments, HandedCall, ToolCalls } from "./events.js";
import type { ToolyardError } from "./link.js";

const MOST_WORDS = 4000;
const MOST_TYPE = 100;
const MOST_AT_ONCE = 1000;
export const AWAITED_S = 600;
/** As long as a server waits, too; a timer that is set to weeks goes off at once. */
const MOST_WAIT_S = 86_400;
/** Of results in one request; a server takes 8 MiB. */
const MOST_BYTES = 8_000_000;

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
  /** How long its result is awaited, here and by the server; 600 if nothing is said. */
  timeoutSeconds?: number;
  /** It changes nothing; unset means that it may change something. */
  readOnly?: boolean;
  /** It may overwrite or delete what cannot be brought back. */
  destructive?: boolean;
  /** It reaches beyond the application: the web, other people. */
  openWorld?: boolean;
  /** The same call twice has the effect of one. */
  idempotent?: boolean;
  /** Requests that it is for, as people would make them; `{name}` stands for the value of a parameter. */
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
  private mostAtOnce = MOST_AT_ONCE;
  private posted: ToolResult[] = [];
  private givenUp = new Set<string>();

  /** `more` finds tools that are known only once somebody was asked; it is given the names that are taken. */
  constructor(
    private tools: Readonly<Record<string, Tool>>,
    private more: ((taken: readonly string[]) => Promise<Record<string, Tool>>) | undefined = undefined,
  ) {}

  /** Find out what there is besides. Throws if that fails; the next time it is tried again. */
  async open(): Promise<void> {
    const found = await this.more?.(Object.keys(this.tools));
    this.tools = { ...found, ...this.tools };
    this.more = undefined;
  }

  /** As the server takes them. */
  definitions(): unknown[] {
    return Object.entries(this.tools).map(([name, { run: _, ...said }]) => ({
      name,
      ...said,
      ...(said.timeoutSeconds === undefined ? {} : { timeoutSeconds: awaited(said) }),
    }));
  }

  /**
   * The results of those that are ours, run side by side, as many as are taken at once; nothing if they were stopped
   * meanwhile. The calls of those that are left are handed out again.
   */
  async results(handed: ToolCalls): Promise<ToolResult[] | undefined> {
    const abort = this.abort;
    const ours = handed.toolCalls.filter((call) => Object.hasOwn(this.tools, call.name));
    const heard = new AbortController();
    const stopped = new Promise<undefined>((resolve) => {
      abort.signal.addEventListener("abort", () => resolve(undefined), { signal: heard.signal });
    });
    const all = Promise.all(ours.map((call) => this.once(call, handed)));
    const results = await Promise.race([all, stopped]);
    heard.abort();
    this.posted = fitting(results ?? []).slice(0, this.mostAtOnce);
    return results && this.posted;
  }

  /** The results just posted were not taken: fewer at once, or one as an error. False if that was one already. */
  giveWay(error: ToolyardError): boolean {
    const [first, ...others] = this.posted;
    if (others.length) {
      this.mostAtOnce = Math.floor(this.posted.length / 2);
      return true;
    }
    if (!first || this.givenUp.has(first.toolCallId)) return false;
    this.givenUp.add(first.toolCallId);
    const type = error.status === 413 ? "too_large" : "validation_error";
    const told = problem(new ToolError(`the tool ran, but its result was not taken: ${error.message}`, type));
    this.runs.set(first.toolCallId, Promise.resolve({ toolCallId: first.toolCallId, error: told }));
    return true;
  }

  stop(): void {
    this.abort.abort();
    this.abort = new AbortController();
  }

  /** The request has ended: nobody asks for its results again. */
  over(): void {
    this.runs.clear();
    this.mostAtOnce = MOST_AT_ONCE;
    this.givenUp.clear();
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
      const wanted = this.tools[call.name];
      const result = await inTime(wanted?.run(call.arguments, running), awaited(wanted), running.signal);
      return { toolCallId: call.id, result: checked(result) };
    } catch (error) {
      return { toolCallId: call.id, error: problem(error) };
    }
  }
}

function awaited(tool: Pick<Tool, "timeoutSeconds"> | undefined): number {
  return Math.min(tool?.timeoutSeconds ?? AWAITED_S, MOST_WAIT_S);
}

/** What a tool comes to. Throws when it takes longer than anybody waits for it. */
async function inTime(work: unknown, seconds: number, stopped: AbortSignal): Promise<unknown> {
  let over = (): void => {};
  const late = new Promise<never>((_, reject) => {
    const said = `no answer within ${seconds} s; it may have taken effect, or still take it`;
    const timer = setTimeout(() => reject(new ToolError(said, "timeout")), seconds * 1000);
    over = () => clearTimeout(timer);
  });
  stopped.addEventListener("abort", over);
  try {
    return await Promise.race([work, late]);
  } finally {
    over();
    stopped.removeEventListener("abort", over);
  }
}

/** A result as it can be delivered, and as it is now, whatever the tool does to it later. Throws for one that cannot: that is the tool's failure, not the client's. */
function checked(result: unknown): unknown {
  const text = JSON.stringify(result) as string | undefined;
  if (text === undefined) return null;
  const size = bytes(text);
  if (size <= MOST_BYTES) return JSON.parse(text);
  const said = `the tool ran, but its result of ${size} bytes is more than a server takes; ask for less, or have the tool return a link`;
  throw new ToolError(said, "too_large");
}

/** The first of them, as many as one request holds. */
function fitting(results: ToolResult[]): ToolResult[] {
  let size = 0;
  return results.filter((result, number) => (size += bytes(JSON.stringify(result))) <= MOST_BYTES || number === 0);
}

const bytes = (text: string): number => new TextEncoder().encode(text).length;

/** As the server takes it: words and a type that are too long are cut, a type that is missing is the usual one. */
function problem(error: unknown): Record<string, unknown> {
  if (error instanceof ToolError) {
    const error_type = cut(error.errorType, MOST_TYPE) || "execution_error";
    return { error: cut(error.message, MOST_WORDS), error_type, details: written(error.details) };
  }
  const words = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { error: cut(words, MOST_WORDS) };
}

/** Details that nobody can write are left out. */
function written(details: Record<string, unknown>): unknown {
  try {
    return checked(details);
  } catch {
    return {};
  }
}

/** The server counts characters, and takes no half of one. */
function cut(text: string, most: number): string {
  return Array.from(text.slice(0, 2 * most)).slice(0, most).join("");
}
