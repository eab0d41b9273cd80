// A conversation from the side of an application: messages go in, events come out, and the application's tools run here.
//
// The server keeps the state of a run, so a broken connection loses nothing: the client reconnects with the id of the last
// event and gets the events after it. A message or a result whose answer is lost is posted again with the same
// Idempotency-Key, so that it takes effect once. The client runs each call once, however often the server hands it out.

import { type ClientEvent, type Final, type Json, type Reply, type ServerEvent, parseEvent } from "./events.js";
import { ConnectionLostError, HttpTransport, ToolyardError, encodeBody } from "./http.js";
import { type McpClient, loadServerTools } from "./mcpServers.js";
import { LocalTools, type Tool, type ToolResult } from "./tools.js";

const PATH = "/chat/v1/conversation";
/** How long to wait before each attempt to reach the server again. */
const BACKOFF_MS = [0, 500, 1000, 2000, 4000, 8000];
const MAX_RATE_LIMIT_WAIT_MS = 120_000;
/** The time between two polls of a run that waits, where the server cannot stream its events. */
const POLL_MS = 500;
/** How many runs of other clients may end before ours does. */
const MAX_OTHER_RUNS = 100;

export interface ClientOptions {
  /** The URL of the server; empty for the origin of the page. */
  url: string;
  key?: string;
  tools?: Readonly<Record<string, Tool>>;
  /** MCP servers of the application, by name. Each is a connected client; their tools are offered with `tools`. */
  servers?: Readonly<Record<string, McpClient>>;
  /** Added after the server's own prompt. */
  systemPrompt?: string;
  /** What the model should know of the application's state. A function is called for each message. */
  context?: Record<string, Json> | (() => Record<string, Json>);
  /** An existing conversation to continue, which may have begun on another device. */
  conversationId?: string;
  headers?: Record<string, string>;
}

export interface SendOptions {
  /** URLs; a `data:` URL carries the image itself. */
  images?: readonly string[];
  /** Stop the active run of the conversation instead of waiting for it. */
  interrupt?: boolean;
}

export interface Client {
  /** Empty before the first message. */
  readonly conversationId: string;
  /** Send a message and yield the events of its run. The last event is the final message. */
  send(text: string, options?: SendOptions): AsyncGenerator<ClientEvent, void, undefined>;
  /** Send a message and return the model's answer. Throws if the run fails. */
  ask(text: string): Promise<string>;
  /** Continue the active or waiting run of the conversation, which another device may have started, to its end. */
  follow(): AsyncGenerator<ClientEvent, void, undefined>;
  /**
   * Stop the request of this client, here and on the server; without one, stop the active run of the conversation. The
   * request then ends as cancelled. If it is still queued, the run before it goes on; if it was not sent yet, it never is.
   */
  stop(): Promise<void>;
}

export function createClient(options: ClientOptions): Client {
  return new AppClient(options);
}

type Body = Record<string, unknown>;

/** A request of the conversation, encoded once: a repetition has the same bytes and key, so it takes effect once. */
interface Post {
  content: string;
  hasMessage: boolean;
  hasResults: boolean;
  correlationId: string;
  headers: Record<string, string>;
}

function buildPost(body: Body): Post {
  const hasMessage = "messages" in body;
  const hasResults = "toolResults" in body;
  const correlationId = randomId();
  const key = hasMessage || hasResults ? { "idempotency-key": randomId() } : {};
  return { content: encodeBody(body), hasMessage, hasResults, correlationId, headers: { "x-correlation-id": correlationId, ...key } };
}

class AppClient implements Client {
  conversationId: string;
  private readonly http: HttpTransport;
  private readonly tools: LocalTools;
  /** The id of the last event received, with which the server resumes a stream. It outlives a connection and a request. */
  private lastEventId = "";
  /** The run of the current request; empty until the server has accepted it. */
  private runId = "";
  private active = false;
  /** Aborted by `stop`. Each request has its own, so that a late stop cannot end the next request. */
  private stopController = new AbortController();

  constructor(private readonly options: ClientOptions) {
    this.conversationId = options.conversationId ?? "";
    const key = options.key ? { authorization: `Bearer ${options.key}` } : {};
    this.http = new HttpTransport(options.url, { ...options.headers, ...key });
    this.tools = new LocalTools(options.tools ?? {}, (taken) => loadServerTools(options.servers ?? {}, taken));
  }

  async *send(text: string, { images = [], interrupt = false }: SendOptions = {}): AsyncGenerator<ClientEvent, void, undefined> {
    const { systemPrompt, context } = this.options;
    yield* this.runRequest(() => ({
      messages: [{ role: "user", content: images.length ? [{ type: "text", text }, ...images.map((url) => ({ type: "image", url }))] : text }],
      tools: this.tools.listDefinitions(),
      interrupt,
      ...(systemPrompt === undefined ? {} : { systemPrompt }),
      ...(context === undefined ? {} : { context: typeof context === "function" ? context() : context }),
      ...(this.conversationId ? this.resumeBody() : { keep: true }),
    }));
  }

  async ask(text: string): Promise<string> {
    let answer: string | undefined;
    for await (const event of this.send(text)) {
      if (event.type !== "message") continue;
      if (event.stopReason === "failed") throw new Error(event.detail ?? "the request failed");
      answer = event.message.content ?? "";
    }
    if (answer === undefined) throw new Error("the request was left before its end");
    return answer;
  }

  async *follow(): AsyncGenerator<ClientEvent, void, undefined> {
    yield* this.runRequest(() => this.resumeBody());
  }

  async stop(): Promise<void> {
    this.stopController.abort();
    try {
      // A request without a run id was not accepted yet: `streamReply` cancels it once the server names its run.
      if (this.conversationId && (this.runId || !this.active)) await this.cancelRun();
    } finally {
      this.tools.stop();
    }
  }

  /** Cancel the run on the server. A 409 means that it has just ended by itself. */
  private async cancelRun(): Promise<void> {
    const retry = new RetryPolicy(new AbortController().signal);
    for (;;) {
      try {
        await this.http.requestJson("POST", `/conversations/${this.conversationId}/cancel`, { run_id: this.runId });
        return;
      } catch (error) {
        if (isConflict(error)) return;
        await retry.wait(error);
      }
    }
  }

  private async *runRequest(buildBody: () => Body): AsyncGenerator<ClientEvent, void, undefined> {
    this.runId = "";
    this.active = true;
    this.stopController = new AbortController();
    try {
      if (this.options.servers) await this.tools.load();
      yield* this.exchange(buildBody());
    } finally {
      this.active = false;
    }
  }

  /** Post, run the calls that are handed out, post their results, and so on until the run has ended. */
  private async *exchange(body: Body): AsyncGenerator<ClientEvent, void, undefined> {
    const otherRuns = new Set<string>();
    for (;;) {
      let reply: Reply | undefined;
      for await (const event of this.streamReply(body)) {
        if (event.type === "message" || event.type === "tool_calls" || event.type === "waiting") reply = event;
        else if (event.type !== "started" && event.type !== "done") yield event;
      }
      if (reply && this.stopController.signal.aborted && reply.runId !== this.runId) {
        this.tools.clear();
        yield this.cancelledMessage(); // ours was stopped, and the reply is about a run of another client
        return;
      }
      if (reply?.type === "message") {
        this.noteEndedRun(reply.runId, otherRuns);
        yield reply;
        if (reply.runId === this.runId) {
          this.tools.clear();
          return;
        }
      }
      const results = await this.runCalls(reply);
      if (results?.length === 0 && !(yield* this.waitForProgress())) await pause(POLL_MS, this.stopController.signal);
      body = results?.length ? { ...this.resumeBody(), toolResults: results } : this.resumeBody();
    }
  }

  /**
   * Note that a run has ended, and throw if ours can no longer be reached. Each run queued before ours ends once; one that
   * ends a second time is the last of the conversation, so ours must have ended before it.
   */
  private noteEndedRun(runId: string, otherRuns: Set<string>): void {
    if (otherRuns.has(runId) || otherRuns.size === MAX_OTHER_RUNS) {
      this.tools.clear();
      throw new Error(`somebody else has ended run ${this.runId} and gone on: the conversation has its answer`);
    }
    otherRuns.add(runId);
  }

  /** Run the calls of a reply. Return [] if the run waits for somebody else, undefined if there is nothing to post. */
  private async runCalls(reply: Reply | undefined): Promise<ToolResult[] | undefined> {
    if (reply?.type === "tool_calls" && !this.stopController.signal.aborted) return this.tools.runCalls(reply);
    // After a stop the calls are handed out again until the run has ended; do not run them, and do not ask in a tight loop.
    if (reply?.type === "tool_calls") await pause(POLL_MS, this.stopController.signal);
    return reply?.type === "waiting" ? [] : undefined;
  }

  /** Post a body and yield the events of its reply up to `done`, over as many connections as that takes. */
  private async *streamReply(body: Body): AsyncGenerator<ServerEvent, void, undefined> {
    let post = buildPost(body);
    let mayBeTaken = false;
    const { signal } = this.stopController;
    const retry = new RetryPolicy(signal);
    for (;;) {
      // A message that the server may have taken is posted once more, to learn which run has to be cancelled.
      const canLeave = post.hasMessage && !mayBeTaken;
      if (canLeave && signal.aborted) {
        yield this.cancelledMessage(post.correlationId);
        return;
      }
      let began = false;
      try {
        for await (const event of this.streamOnce(post)) {
          began = true;
          // `stop` was called before the server had accepted the message: only now is there a run to cancel.
          if (event.type === "started" && signal.aborted) await this.cancelRun();
          retry.reset();
          yield event;
        }
        return;
      } catch (error) {
        // Another device was first, or a result can never be taken: the calls that still wait are handed out again.
        if (post.hasResults && (isConflict(error) || (isInvalid(error) && this.tools.reduceResults(error)))) {
          post = buildPost(this.resumeBody());
          continue;
        }
        if (!isRateLimited(error) || !canLeave || !signal.aborted) await retry.wait(error);
        if (error instanceof ConnectionLostError) {
          mayBeTaken = true;
          if (began) post = buildPost(this.resumeBody());
        }
      }
    }
  }

  private cancelledMessage(correlationId = ""): Final {
    const { conversationId, runId } = this;
    const message = { role: "assistant" as const, content: null };
    return { type: "message", conversationId, runId, correlationId, message, stopReason: "cancelled" };
  }

  /** Yield the events of one connection. Throws ConnectionLostError if it ends before `done`. */
  private async *streamOnce(post: Post): AsyncGenerator<ServerEvent, void, undefined> {
    const headers = { ...post.headers, ...(this.lastEventId ? { "last-event-id": this.lastEventId } : {}) };
    for await (const { id, data } of this.http.streamEvents("POST", PATH, post.content, headers)) {
      this.lastEventId = id || this.lastEventId;
      const event = parseEvent(data);
      if (!event) continue;
      if (event.type === "started") {
        this.conversationId = event.conversationId;
        this.runId ||= event.runId;
      }
      yield event;
      if (event.type === "done") return;
    }
    throw new ConnectionLostError("the server has ended the stream");
  }

  /** Yield the next event of a run that waits for somebody else. Return false if the stream broke before one came. */
  private async *waitForProgress(): AsyncGenerator<ClientEvent, boolean, undefined> {
    const path = `/conversations/${this.conversationId}/events`;
    try {
      for await (const { id, data } of this.http.streamEvents("GET", path, undefined, { "last-event-id": this.lastEventId })) {
        this.lastEventId = id || this.lastEventId;
        const event = parseEvent(data);
        if (!event || event.type === "done" || event.type === "started" || event.type === "waiting") continue;
        if (event.type !== "tool_calls") {
          yield event;
          return true;
        }
      }
    } catch (error) {
      if (!(error instanceof ConnectionLostError) && !isRateLimited(error)) throw error;
    }
    return false;
  }

  /** Return the body that asks for the state of the conversation. */
  private resumeBody(): Body {
    return { conversationId: this.conversationId };
  }
}

/** Return 32 hexadecimal digits. `crypto.randomUUID` is missing on pages without TLS. */
function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Return whether the server can never take this body: it is too large or not valid. */
function isInvalid(error: unknown): error is ToolyardError {
  return error instanceof ToolyardError && [400, 413, 422].includes(error.status);
}

function isRateLimited(error: unknown): error is ToolyardError {
  return error instanceof ToolyardError && error.status === 429;
}

function isConflict(error: unknown): boolean {
  return error instanceof ToolyardError && error.status === 409;
}

/** Decides how long to wait before the next attempt. */
class RetryPolicy {
  private attempts = 0;
  private rateLimitWaitMs = 0;

  /** An abort of `stopped` ends a wait early. */
  constructor(private readonly stopped: AbortSignal) {}

  /** Start over, as the server has answered. Waits for rate limits stay counted: they are the server's answer. */
  reset(): void {
    this.attempts = 0;
  }

  /** Wait before the next attempt. Throws the error if there is no attempt left, or if another attempt would not help. */
  async wait(error: unknown): Promise<void> {
    if (isRateLimited(error)) {
      this.rateLimitWaitMs += error.retryAfterMs;
      if (this.rateLimitWaitMs > MAX_RATE_LIMIT_WAIT_MS) throw error;
      return pause(error.retryAfterMs, this.stopped);
    }
    const delayMs = BACKOFF_MS[this.attempts];
    if (!(error instanceof ConnectionLostError) || delayMs === undefined) throw error;
    this.attempts += 1;
    return pause(delayMs, this.stopped);
  }
}

function pause(delayMs: number, stopped: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      stopped.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, delayMs);
    stopped.addEventListener("abort", finish);
  });
}
