import type { AdministrationText } from "../../locales/administration"
import { describeError } from "../../wire/http"
import type { ServerView } from "../../wire/types"
import { findNewer } from "../settings/requests"

/** Return why a change failed. If somebody else was faster, the card shows the newer values by then. */
export function describeChangeError(error: unknown, a: AdministrationText): string {
  const newer = findNewer<ServerView>(error)
  return newer === undefined ? describeError(error) : a(newer ? "outdated" : "outdatedGone")
}
