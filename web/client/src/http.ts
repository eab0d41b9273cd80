// Requests, responses and event streams over HTTP. This module does not know what they are for.

/** The server refused a request. */
export class ToolyardError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly errorType: string,
    readonly details: Record<string, unknown> = {},
    readonly retryAfterMs = 0,
  ) {
    super(message);
    this.name = "ToolyardError";
  }
}

/** The connection broke, or the server is about to stop: it is not known whether the server took the request. */
export class ConnectionLostError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "ConnectionLostError";
  }
}

/** A connection that is silent for longer is given up. The server sends a heartbeat every 15 s. */
const MAX_SILENCE_MS = 60_000;

export interface StreamEvent {
  /** The id of the last event that had one; empty before the first. */
  id: string;
  data: string;
}

export class HttpTransport {
  private readonly url: string;

  constructor(
    url: string,
    private readonly headers: Record<string, string>,
  ) {
    this.url = url.replace(/\/+$/, "");
  }

  /** Send a request and return the JSON of its response. */
  async requestJson<T>(method: string, path: string, body?: unknown): Promise<T> {
    const abort = new AbortController();
    const response = await this.request(method, path, body === undefined ? undefined : encodeBody(body), {}, abort);
    try {
      return (await abortIfSilent(response.json(), abort)) as T;
    } catch (error) {
      throw new ConnectionLostError(`the connection broke: ${describeError(error)}`);
    }
  }

  /** Yield each event of a stream until it ends. Throws ConnectionLostError if it breaks, ToolyardError if it is refused. */
  async *streamEvents(
    method: string,
    path: string,
    body: string | undefined,
    headers: Record<string, string>,
  ): AsyncGenerator<StreamEvent, void, undefined> {
    const abort = new AbortController();
    try {
      const streamHeaders = { accept: "text/event-stream", ...headers };
      const response = await this.request(method, path, body, streamHeaders, abort);
      let id = "";
      for await (const line of readLines(response, abort)) {
        const colon = line.indexOf(":");
        const [name, value] = [line.slice(0, colon), line.slice(colon + 1).trim()];
        if (name === "id") id = value;
        else if (name === "data") yield { id, data: value };
      }
    } finally {
      abort.abort(); // a caller that leaves the loop closes the connection
    }
  }

  private async request(
    method: string,
    path: string,
    body: string | undefined,
    headers: Record<string, string>,
    abort: AbortController,
  ): Promise<Response> {
    let response: Response;
    try {
      const request = fetch(`${this.url}${path}`, {
        method,
        headers: { ...this.headers, ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
        signal: abort.signal,
        ...(body === undefined ? {} : { body }),
      });
      response = await abortIfSilent(request, abort);
    } catch (error) {
      throw new ConnectionLostError(`no server answers at ${this.url}: ${describeError(error)}`);
    }
    if (!response.ok) throw await toError(response, abort);
    return response;
  }
}

/** Return a body as JSON, as `streamEvents` takes it. */
export function encodeBody(body: unknown): string {
  return JSON.stringify(body, replaceLoneSurrogates);
}

/** Replace half a character, which a text that was cut may end with: it cannot be encoded as UTF-8. */
function replaceLoneSurrogates(_: string, value: unknown): unknown {
  return typeof value === "string" ? value.replace(/\p{Surrogate}/gu, "\ufffd") : value;
}

/** Await a step of a response, and abort the connection if that takes too long. */
async function abortIfSilent<T>(step: Promise<T>, abort: AbortController): Promise<T> {
  const timer = setTimeout(() => abort.abort(), MAX_SILENCE_MS);
  try {
    return await step;
  } finally {
    clearTimeout(timer);
  }
}

async function* readLines(response: Response, abort: AbortController): AsyncGenerator<string, void, undefined> {
  if (!response.body) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    let chunk: ReadableStreamReadResult<Uint8Array>;
    try {
      chunk = await abortIfSilent(reader.read(), abort);
    } catch (error) {
      throw new ConnectionLostError(`the connection broke: ${describeError(error)}`);
    }
    if (chunk.done) return;
    const lines = (rest + decoder.decode(chunk.value, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}

/** Return the error of a response: ConnectionLostError for those that another attempt may get past. */
async function toError(response: Response, abort: AbortController): Promise<Error> {
  let body: { error?: string; error_type?: string; details?: Record<string, unknown> } = {};
  try {
    body = (await abortIfSilent(response.json(), abort)) as typeof body;
  } catch {
    // A proxy answered instead of the server: only the status is known.
  }
  const message = body.error ?? `the server answered ${response.status}`;
  if (response.status >= 500 || response.status === 408) return new ConnectionLostError(message);
  const retryAfterS = Number(response.headers.get("retry-after"));
  const retryAfterMs = response.status === 429 ? (retryAfterS >= 1 ? retryAfterS : 1) * 1000 : 0;
  return new ToolyardError(message, response.status, body.error_type ?? "", body.details, retryAfterMs);
}

function describeError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
