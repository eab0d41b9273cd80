// Requests to the server that this page came from. The user is known by a cookie that scripts cannot read.
import { logHttpError } from "./consoleLog"
import { noteReplica } from "./replica"
import type { ErrorBody } from "./types"

/** A response whose status is not a success. */
export class HttpError extends Error {
  constructor(
    readonly status: number,
    readonly body: ErrorBody,
  ) {
    super(body.error)
  }

  /** Return the error text of each invalid field, by the field's name. */
  get fields(): Record<string, string> {
    const problems = this.body.details["fields"] ?? this.body.details["errors"]
    if (!Array.isArray(problems)) return {}
    return Object.fromEntries(
      problems.map((problem: Record<string, unknown>) => [
        String(problem["key"] ?? problem["field"] ?? problem["path"] ?? ""),
        String(problem["message"] ?? problem["error"] ?? ""),
      ]),
    )
  }
}

/** The language of every request, and a callback for when the server no longer knows the user. */
export const session = {
  language: "en",
  /** Called when the server answers 401: nobody is signed in, or the session has ended. */
  onUnauthorized: (): void => {},
}

/** Resolve a path against the page's own URL, so that the page works under any prefix. */
export function resolveUrl(path: string): URL {
  return new URL(path, document.baseURI.replace(/#.*$/, ""))
}

/** Send a request, with a body that becomes JSON or with bytes. Throws HttpError for any status that is not a success. */
export async function request(method: string, path: string, body?: unknown, options: RequestInit = {}, bytes: Uint8Array<ArrayBuffer> | null = null): Promise<Response> {
  const headers = new Headers(options.headers)
  headers.set("accept-language", session.language)
  if (body !== undefined) headers.set("content-type", "application/json")
  const response = await fetch(resolveUrl(path), {
    ...options,
    method,
    headers,
    body: body === undefined ? bytes : JSON.stringify(body),
    credentials: "same-origin",
    cache: "no-store",
  })
  noteReplica(response)
  if (response.ok) return response
  if (response.status === 401) session.onUnauthorized()
  const error = new HttpError(response.status, await readError(response))
  logHttpError(method, path, response.status, error.body.correlation_id, error.message)
  throw error
}

/** Send a request and return the JSON of its response. */
export async function requestJson<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
  return (await request(method, path, body)).json() as Promise<Answer>
}

/** Return the error that the server sent, or one made from the status where a proxy answered instead. */
async function readError(response: Response): Promise<ErrorBody> {
  try {
    return (await response.json()) as ErrorBody
  } catch {
    const error = `the server answered ${response.status} ${response.statusText}`
    return { ok: false, success: false, error, error_type: "unavailable", correlation_id: "", details: {} }
  }
}

export { describeError } from "./describeError"
