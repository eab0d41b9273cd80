// Requests to the server that this page came from, with the visitor's key. The key is kept for this tab only.
import { logRefusal } from "./consoleLog"
import type { ErrorBody } from "./types"

const KEPT_AS = "toolyard.key"

export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly body: ErrorBody,
  ) {
    super(body.error)
  }

  /** What is wrong with each field, by its name. */
  get fields(): Record<string, string> {
    const listed = this.body.details["fields"] ?? this.body.details["errors"]
    if (!Array.isArray(listed)) return {}
    return Object.fromEntries(
      listed.map((one: Record<string, unknown>) => [String(one["key"] ?? one["field"] ?? one["path"] ?? ""), String(one["message"] ?? one["error"] ?? "")]),
    )
  }
}

export const visitor = {
  get key(): string {
    return sessionStorage.getItem(KEPT_AS) ?? ""
  },
  set key(key: string) {
    if (key) sessionStorage.setItem(KEPT_AS, key)
    else sessionStorage.removeItem(KEPT_AS)
  },
  language: "en",
  /** Called when the server no longer knows the key. */
  onUnknown: (): void => {},
}

export function address(path: string): URL {
  return new URL(path, document.baseURI.replace(/#.*$/, ""))
}

export async function request(method: string, path: string, body?: unknown, more: RequestInit = {}): Promise<Response> {
  const headers = new Headers(more.headers)
  headers.set("accept-language", visitor.language)
  if (visitor.key) headers.set("authorization", `Bearer ${visitor.key}`)
  if (body !== undefined) headers.set("content-type", "application/json")
  const answer = await fetch(address(path), {
    ...more,
    method,
    headers,
    body: body === undefined ? null : JSON.stringify(body),
    credentials: "omit",
    cache: "no-store",
  })
  if (answer.ok) return answer
  if (answer.status === 401) visitor.onUnknown()
  const refusal = new Refusal(answer.status, await problem(answer))
  logRefusal(method, path, answer.status, refusal.body.correlation_id, refusal.message)
  throw refusal
}

export async function ask<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
  return (await request(method, path, body)).json() as Promise<Answer>
}

async function problem(answer: Response): Promise<ErrorBody> {
  try {
    return (await answer.json()) as ErrorBody
  } catch {
    const said = `the server answered ${answer.status} ${answer.statusText}`
    return { ok: false, success: false, error: said, error_type: "unavailable", correlation_id: "", details: {} }
  }
}

export function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

export const part = encodeURIComponent
