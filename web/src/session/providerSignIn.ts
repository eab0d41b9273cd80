// Signing in at the identity provider: the browser leaves the page for it, and comes back signed in or with an error.
import type { MessageKey } from "../locales"

const ROUTE_KEY = "toolyard.route"
const ERROR_PARAMETER = "sign_in_error"
const ERRORS: Record<string, MessageKey> = {
  busy: "signin.error.busy",
  denied: "signin.error.denied",
  expired: "signin.error.expired",
  failed: "signin.error.failed",
  no_access: "signin.error.noAccess",
  unavailable: "signin.error.unavailable",
}

/** Return the text for the error that a sign-in came back with, if it did. Anybody can write an address: only codes count. */
export function findSignInError(search: string): MessageKey | undefined {
  const code = new URLSearchParams(search).get(ERROR_PARAMETER)
  if (code === null) return undefined
  return Object.hasOwn(ERRORS, code) ? ERRORS[code] : "signin.error.failed"
}

/** Take the error out of the address, so that it is not shown again when the page is loaded again. */
export function clearSignInError(): void {
  history.replaceState(null, "", location.pathname + location.hash)
}

/** Remember what was open when the browser leaves: the way back leads to the start page. */
export function rememberRoute(): void {
  sessionStorage.setItem(ROUTE_KEY, location.hash)
}

/** Open what was open when the browser left. */
export function restoreRoute(): void {
  const hash = sessionStorage.getItem(ROUTE_KEY)
  sessionStorage.removeItem(ROUTE_KEY)
  if (hash && !location.hash) history.replaceState(null, "", location.pathname + location.search + hash)
}
