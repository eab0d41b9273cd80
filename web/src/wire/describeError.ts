import { createTranslate, getPreferredLanguage } from "../locales"

/** How browsers name a request that got no answer. Each has words of its own, which mean nothing to most people. */
const NETWORK_FAILURE = /failed to fetch|networkerror|load failed|network error/i

/** Return whether a request failed because the server could not be reached. */
export function isNetworkError(error: unknown): boolean {
  return error instanceof TypeError && NETWORK_FAILURE.test(error.message)
}

/** Return an error as a text for the user, in their language where the words are the page's own. */
export function describeError(error: unknown): string {
  if (isNetworkError(error)) return createTranslate(getPreferredLanguage())("app.unreachable")
  return error instanceof Error ? error.message : String(error)
}
