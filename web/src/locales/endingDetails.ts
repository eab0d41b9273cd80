import type { MessageKey, Translate } from "."

const DETAILS: Record<string, MessageKey> = {
  turns_per_request: "detail.turnsPerRequest",
  turns_per_conversation: "detail.turnsPerConversation",
  run_tokens: "detail.runTokens",
  run_seconds: "detail.runSeconds",
  length: "detail.length",
  refused: "detail.refused",
}

/** Return a sentence for the limit that ended a run. Any other detail is already a text and is returned as it is. */
export function describeEndingDetail(detail: string, t: Translate): string {
  const key = DETAILS[detail]
  return key ? t(key) : detail
}
