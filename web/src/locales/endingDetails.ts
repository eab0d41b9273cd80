import type { MessageKey, Translate } from "."

const DETAILS: Record<string, MessageKey> = {
  turns_per_request: "detail.turnsPerRequest",
  turns_per_conversation: "detail.turnsPerConversation",
  run_tokens: "detail.runTokens",
  run_seconds: "detail.runSeconds",
  length: "detail.length",
  refused: "detail.refused",
}

/** The types of errors that the server puts in front of a detail. */
const ERROR_TYPES: Record<string, MessageKey> = {
  model_error: "error.model",
  unavailable: "error.unavailable",
  rate_limited: "error.rateLimited",
  quota_exceeded: "error.quota",
  content_filter: "error.filtered",
  too_large: "error.tooLarge",
  timeout: "error.timeout",
  permission_denied: "error.permission",
  validation_error: "error.invalid",
  json_parse_error: "error.invalid",
}

/**
 * Return a sentence for what ended a run: one for its limit, or one for the type of its error with the text of the error. Any
 * other detail is already a text and is returned as it is.
 */
export function describeEndingDetail(detail: string, t: Translate): string {
  const key = DETAILS[detail]
  if (key) return t(key)
  const [type = "", ...rest] = detail.split(": ")
  const typeKey = rest.length ? ERROR_TYPES[type] : undefined
  return typeKey ? `${t(typeKey)} ${rest.join(": ")}` : detail
}
