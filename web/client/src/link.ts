// The way to the server: requests, answers and streams over HTTP. It does not know what they are for.

/** What the server says against a request. */
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

/** The connection broke, or the server is about to stop: whether it took the request is not known. */
export class Lost extends Error {
  constructor(message: string) {
    super(message);
    this.name = "Lost";
  }
}

/** A stream is alive while something comes now and then: the server sends a heartbeat every 15 s. */
const SILENCE_MS = 60_000;

export interface StreamEvent {
  /** The last id that was seen; empty before the first. */
  place: string;
  data: string;
}

export class Link {
  private readonly url: string;

  constructor(
    url: string,
    private readonly headers: Record<string, string>,
  ) {
    this.url = url.replace(/\/+$/, "");
  }

  async ask<T>(method: string, path: string, body?: unknown): Promise<T> {
    const abort = new AbortController();
    const response = await this.request(method, path, body, {}, abort);
    try {
      return (await alive(response.json(), abort)) as T;
    } catch (error) {
      throw new Lost(`the connection broke: ${said(error)}`);
    }
  }

  /** Each event of a stream, until it ends. Throws Lost if it breaks, ToolyardError if it is refused. */
  async *events(
    method: string,
    path: string,
    body: unknown,
    headers: Record<string, string>,
  ): AsyncGenerator<StreamEvent, void, undefined> {
    const abort = new AbortController();
    try {
      const sent = { accept: "text/event-stream", ...headers };
      const response = await this.request(method, path, body, sent, abort);
      let place = "";
      for await (const line of lines(response, abort)) {
        const colon = line.indexOf(":");
        const [name, value] = [line.slice(0, colon), line.slice(colon + 1).trim()];
        if (name === "id") place = value;
        else if (name === "data") yield { place, data: value };
      }
    } finally {
      abort.abort(); // whoever leaves the iteration leaves the connection
    }
  }

  private async request(
    method: string,
    path: string,
    body: unknown,
    headers: Record<string, string>,
    abort: AbortController,
  ): Promise<Response> {
    let response: Response;
    try {
      const asked = fetch(`${this.url}${path}`, {
        method,
        headers: { ...this.headers, ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
        signal: abort.signal,
        ...(body === undefined ? {} : { body: JSON.stringify(body, wholeCharacters) }),
      });
      response = await alive(asked, abort);
    } catch (error) {
      throw new Lost(`no server answers at ${this.url}: ${said(error)}`);
    }
    if (!response.ok) throw await refusal(response, abort);
    return response;
  }
}

/** Half a character, as a cut text may end with, can be read by nobody. */
function wholeCharacters(_: string, value: unknown): unknown {
  return typeof value === "string" ? value.replace(/\p{Surrogate}/gu, "\ufffd") : value;
}

/** What comes of a wait; the connection is given up if that is silence for too long. */
async function alive<T>(wait: Promise<T>, abort: AbortController): Promise<T> {
  const quiet = setTimeout(() => abort.abort(), SILENCE_MS);
  try {
    return await wait;
  } finally {
    clearTimeout(quiet);
  }
}

async function* lines(response: Response, abort: AbortController): AsyncGenerator<string, void, undefined> {
  if (!response.body) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    let piece: ReadableStreamReadResult<Uint8Array>;
    try {
      piece = await alive(reader.read(), abort);
    } catch (error) {
      throw new Lost(`the connection broke: ${said(error)}`);
    }
    if (piece.done) return;
    const found = (rest + decoder.decode(piece.value, { stream: true })).split("\n");
    rest = found.pop() ?? "";
    yield* found;
  }
}

async function refusal(response: Response, abort: AbortController): Promise<Error> {
  let told: { error?: string; error_type?: string; details?: Record<string, unknown> } = {};
  try {
    told = (await alive(response.json(), abort)) as typeof told;
  } catch {
    // not one of ours: the status has to do
  }
  const words = told.error ?? `the server answered ${response.status}`;
  if (response.status >= 500 || response.status === 408) return new Lost(words);
  const after = Number(response.headers.get("retry-after"));
  const retryAfterMs = response.status === 429 ? (after >= 1 ? after : 1) * 1000 : 0;
  return new ToolyardError(words, response.status, told.error_type ?? "", told.details, retryAfterMs);
}

function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
