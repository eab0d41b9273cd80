import type { CallView } from "../state/view"
import { loadOpenRuns } from "../state/openRuns"
import { requestJson } from "../wire/http"

/** Decide several calls alike. Raises the first error once all requests have been answered. */
export async function decideCalls(conversation: string, calls: CallView[], decision: "approve" | "deny", body: Record<string, unknown> = {}): Promise<void> {
  const requests = calls.map((call) => requestJson("POST", `conversations/${encodeURIComponent(conversation)}/calls/${encodeURIComponent(call.id)}/${decision}`, body))
  const failed = (await Promise.allSettled(requests)).find((outcome) => outcome.status === "rejected")
  void loadOpenRuns()
  if (failed) throw failed.reason
}
