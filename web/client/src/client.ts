// A conversation as an application has it: what the user says goes in, events come out, its tools run here.
// A connection that breaks is taken up from the last event; a call is run once, however often it is told.

import { type Answer, type ClientEvent, type Final, type Json, type Told, read } from "./events.js";
import { Link, Lost, ToolyardError } from "./link.js";
import { type McpClient, routed } from "./servers.js";
import { LocalTools, type Tool, type ToolResult } from "./tools.js";

const PATH = "/chat/v1/conversation";
/** How long to wait before each attempt to find the server again. */
const BACKOFF_MS = [0, 500, 1000, 2000, 4000, 8000];
const MOST_RATE_WAIT_MS = 120_000;
/** Between two looks at what becomes of a request, where nobody tells. */
const LOOK_MS = 500;
/** How many requests of others may end before ours does. */
const MOST_OTHERS = 100;

export interface ClientOptions {
  /** Where the server is; empty for the page's own origin. */
  url: string;
  key?: string;
  tools?: Readonly<Record<string, Tool>>;
  /** MCP servers of the application, by name: their tools are offered beside its own. Each is a connected client. */
  servers?: Readonly<Record<string, McpClient>>;
  /** Comes after the server's own prompt. */
  systemPrompt?: string;
  /** What the model is told of the application besides; a function is asked with each message. */
  context?: Record<string, Json> | (() => Record<string, Json>);
  /** A conversation to go on with, perhaps of another device. */
  conversationId?: string;
  headers?: Record<string, string>;
}

export interface SendOptions {
  /** Addresses; one that begins with `data:` carries the image. */
  images?: readonly string[];
  /** Stop what still runs in the conversation instead of waiting for it. */
  interrupt?: boolean;
}

export interface Client {
  /** Empty before the first message. */
  readonly conversationId: string;
  /** Say something; everything that happens until the answer, which is the last event. */
  send(text: string, options?: SendOptions): AsyncGenerator<ClientEvent, void, undefined>;
  /** Say something; the model's answer. Throws if there is none. */
  ask(text: string): Promise<string>;
  /** Take up what runs or waits in the conversation, perhaps begun on another device, to its end. */
  follow(): AsyncGenerator<ClientEvent, void, undefined>;
  /**
   * Stop the request that is under way, here and on the server, or what runs there if none is. It then ends as
   * cancelled. One that stands in line leaves the one in front alone; one not yet sent never is.
   */
  stop(): Promise<void>;
}

export function createClient(options: ClientOptions): Client {
  return new AppClient(options);
}

type Body = Record<string, unknown>;

class AppClient implements Client {
  conversationId: string;
  private readonly link: Link;
  private readonly tools: LocalTools;
  private place = "";
  private runId = "";
  private underWay = false;
  /** Aborted when the request that is under way is stopped here. Each has its own. */
  private halt = new AbortController();

  constructor(private readonly options: ClientOptions) {
    this.conversationId = options.conversationId ?? "";
    const key = options.key ? { authorization: `Bearer ${options.key}` } : {};
    this.link = new Link(options.url, { ...options.headers, ...key });
    this.tools = new LocalTools(options.tools ?? {}, (taken) => routed(options.servers ?? {}, taken));
  }

  async *send(text: string, { images = [], interrupt = false }: SendOptions = {}): AsyncGenerator<ClientEvent, void, undefined> {
    const { systemPrompt, context } = this.options;
    yield* this.driven(() => ({
      messages: [{ role: "user", content: images.length ? [{ type: "text", text }, ...images.map((url) => ({ type: "image", url }))] : text }],
      tools: this.tools.definitions(),
      interrupt,
      ...(systemPrompt === undefined ? {} : { systemPrompt }),
      ...(context === undefined ? {} : { context: typeof context === "function" ? context() : context }),
      ...(this.conversationId ? this.resume() : { keep: true }),
    }));
  }

  async ask(text: string): Promise<string> {
    let words: string | undefined;
    for await (const event of this.send(text)) {
      if (event.type !== "message") continue;
      if (event.stopReason === "failed") throw new Error(event.detail ?? "the request failed");
      words = event.message.content ?? "";
    }
    if (words === undefined) throw new Error("the request was left before its end");
    return words;
  }

  async *follow(): AsyncGenerator<ClientEvent, void, undefined> {
    yield* this.driven(() => this.resume());
  }

  async stop(): Promise<void> {
    this.halt.abort();
    try {
      if (this.conversationId && (this.runId || !this.underWay)) await this.cancel();
    } finally {
      this.tools.stop();
    }
  }

  /** Have the server stop it. It may have ended by itself in this very moment. */
  private async cancel(): Promise<void> {
    const patience = new Patience(new AbortController().signal);
    for (;;) {
      try {
        await this.link.ask("POST", `/conversations/${this.conversationId}/cancel`, { run_id: this.runId });
        return;
      } catch (error) {
        if (isRefused(error)) return;
        await patience.wait(error);
      }
    }
  }

  private async *driven(made: () => Body): AsyncGenerator<ClientEvent, void, undefined> {
    this.runId = "";
    this.underWay = true;
    this.halt = new AbortController();
    try {
      if (this.options.servers) await this.tools.open();
      yield* this.exchanged(made());
    } finally {
      this.underWay = false;
    }
  }

  /** Post, run what is handed out, post the results, until the request has ended. */
  private async *exchanged(body: Body): AsyncGenerator<ClientEvent, void, undefined> {
    const others = new Set<string>();
    for (;;) {
      let answer: Answer | undefined;
      for await (const told of this.answered(body)) {
        if (told.type === "message" || told.type === "tool_calls" || told.type === "waiting") answer = told;
        else if (told.type !== "started" && told.type !== "done") yield told;
      }
      if (answer && this.halt.signal.aborted && answer.runId !== this.runId) {
        this.tools.over();
        yield this.unanswered(); // it was stopped, and somebody else's is in front now
        return;
      }
      if (answer?.type === "message") {
        this.check(answer.runId, others);
        yield answer;
        if (answer.runId === this.runId) {
          this.tools.over();
          return;
        }
      }
      const results = await this.results(answer);
      if (results?.length === 0 && !(yield* this.news())) await pause(LOOK_MS, this.halt.signal);
      body = results?.length ? { ...this.resume(), toolResults: results } : this.resume();
    }
  }

  /** Those before ours end once each. One that is told again is the conversation's last: ours ended before it. */
  private check(ended: string, others: Set<string>): void {
    if (others.has(ended) || others.size === MOST_OTHERS) {
      this.tools.over();
      throw new Error(`somebody else has ended run ${this.runId} and gone on: the conversation has its answer`);
    }
    others.add(ended);
  }

  /** What to post next; empty if somebody else has to do something first, nothing to ask how it went on. */
  private async results(answer: Answer | undefined): Promise<ToolResult[] | undefined> {
    if (answer?.type === "tool_calls" && !this.halt.signal.aborted) return this.tools.results(answer);
    if (answer?.type === "tool_calls") await pause(LOOK_MS, this.halt.signal);
    return answer?.type === "waiting" ? [] : undefined;
  }

  /** What the server tells until its `done`, over as many connections as that takes. */
  private async *answered(body: Body): AsyncGenerator<Told, void, undefined> {
    const correlationId = randomId();
    const { signal } = this.halt;
    const patience = new Patience(signal);
    for (;;) {
      if ("messages" in body && signal.aborted) {
        yield this.unanswered(correlationId);
        return;
      }
      let began = false;
      try {
        for await (const told of this.posted(body, correlationId)) {
          began = true;
          // the server could not be told before it had the message
          if (told.type === "started" && signal.aborted) await this.cancel();
          patience.renew();
          yield told;
        }
        return;
      } catch (error) {
        if (isRefused(error) && "toolResults" in body) {
          body = this.resume(); // somebody else was first, or this was delivered before the connection broke
          continue;
        }
        if (isUnfit(error) && "toolResults" in body && this.tools.giveWay(error)) {
          body = this.resume(); // what was not taken is handed out again
          continue;
        }
        if (!isTooSoon(error) || !("messages" in body) || !signal.aborted) await patience.wait(error);
        if (error instanceof Lost) body = began ? this.resume() : await this.again(body, correlationId, patience);
      }
    }
  }

  private unanswered(correlationId = ""): Final {
    const { conversationId, runId } = this;
    const message = { role: "assistant" as const, content: null };
    return { type: "message", conversationId, runId, correlationId, message, stopReason: "cancelled" };
  }

  /** What comes over one connection. Throws Lost if it ends before its `done`. */
  private async *posted(body: Body, correlationId: string): AsyncGenerator<Told, void, undefined> {
    const headers = { "x-correlation-id": correlationId, ...(this.place ? { "last-event-id": this.place } : {}) };
    for await (const { place, data } of this.link.events("POST", PATH, body, headers)) {
      this.place = place || this.place;
      const told = read(data);
      if (!told) continue;
      if (told.type === "started") {
        this.conversationId = told.conversationId;
        this.runId ||= told.runId;
      }
      yield told;
      if (told.type === "done") return;
    }
    throw new Lost("the server has ended the stream");
  }

  /** No answer came: what to post now. A message is sent again only if the server says that it never took it. */
  private async again(body: Body, correlationId: string, patience: Patience): Promise<Body> {
    while ("messages" in body) {
      try {
        const found = await this.link.ask<{ runs: { conversation: string; run_id: string }[] }>(
          "GET",
          `/traces/${correlationId}`,
        );
        const last = found.runs.at(-1);
        if (!last) break;
        this.conversationId = last.conversation;
        this.runId = last.run_id;
        this.place ||= "0";
        return this.resume();
      } catch (error) {
        if (error instanceof ToolyardError && error.status === 404) break;
        await patience.wait(error);
      }
    }
    return body;
  }

  /** Everything until the run goes on: a decision was made, or another device has answered. False if nobody told. */
  private async *news(): AsyncGenerator<ClientEvent, boolean, undefined> {
    const path = `/conversations/${this.conversationId}/events`;
    try {
      for await (const { place, data } of this.link.events("GET", path, undefined, { "last-event-id": this.place })) {
        this.place = place || this.place;
        const told = read(data);
        if (!told || told.type === "done" || told.type === "started" || told.type === "waiting") continue;
        if (told.type !== "tool_calls") {
          yield told;
          return true;
        }
      }
    } catch (error) {
      if (!(error instanceof Lost) && !isTooSoon(error)) throw error;
    }
    return false;
  }

  private resume(): Body {
    return { conversationId: this.conversationId };
  }
}

/** 32 hexadecimal digits; `crypto.randomUUID` is missing on pages without TLS. */
function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The server takes nothing like this, however often it is sent: it is too large, or cannot be read. */
function isUnfit(error: unknown): error is ToolyardError {
  return error instanceof ToolyardError && [400, 413, 422].includes(error.status);
}

function isTooSoon(error: unknown): error is ToolyardError {
  return error instanceof ToolyardError && error.status === 429;
}

function isRefused(error: unknown): boolean {
  return error instanceof ToolyardError && error.status === 409;
}

/** How long to wait before the next attempt; a stop wakes it up. Throws the error again when it is used up, or if waiting is no use. */
class Patience {
  private tries = 0;
  private rateWaitsMs = 0;

  constructor(private readonly stopped: AbortSignal) {}

  renew(): void {
    this.tries = 0;
  }

  async wait(error: unknown): Promise<void> {
    if (isTooSoon(error)) {
      this.rateWaitsMs += error.retryAfterMs;
      if (this.rateWaitsMs > MOST_RATE_WAIT_MS) throw error;
      return pause(error.retryAfterMs, this.stopped);
    }
    const delayMs = BACKOFF_MS[this.tries];
    if (!(error instanceof Lost) || delayMs === undefined) throw error;
    this.tries += 1;
    return pause(delayMs, this.stopped);
  }
}

function pause(delayMs: number, stopped: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const over = () => {
      clearTimeout(timer);
      stopped.removeEventListener("abort", over);
      resolve();
    };
    const timer = setTimeout(over, delayMs);
    stopped.addEventListener("abort", over);
  });
}
