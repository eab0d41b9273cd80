import type { Say, Word } from "."

const DETAILS: Record<string, Word> = {
  turns_per_request: "detail.turnsPerRequest",
  turns_per_conversation: "detail.turnsPerConversation",
  run_tokens: "detail.runTokens",
  run_seconds: "detail.runSeconds",
  length: "detail.length",
  refused: "detail.refused",
}

/** Why a run ended so: the limit by its name, or what was told. */
export function inWords(detail: string, say: Say): string {
  const word = DETAILS[detail]
  return word ? say(word) : detail
}
