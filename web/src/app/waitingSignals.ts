// Tells the user that something waits: in the title of the tab, and by a notification when it begins to wait.
import { useEffect, useRef } from "react"
import { nameTool } from "../components/humanize"
import { maySeeRun, maySeeTenant, useMe } from "../session/caller"
import { notifyHidden } from "./notifications"
import { navigate } from "./route"
import { listOpenRunsOf, useOpenRuns, useWaitingCount, waitsForUser } from "../state/openRuns"
import { setWaitingInTitle } from "./title"
import { useTranslate } from "../locales"
import type { OpenRun } from "../wire/types"

export function useWaitingSignals(): void {
  const t = useTranslate()
  const me = useMe()
  const runs = useOpenRuns()
  const count = useWaitingCount()
  const isApprover = maySeeTenant(me) && me.roles.includes("approver")
  const open = (run: OpenRun) => (maySeeRun(me, run) ? navigate("chat", run.conversation) : navigate("inbox"))
  const describe = (run: OpenRun) => (maySeeRun(me, run) ? run.title : t("inbox.requestedBy", { user: run.user }))
  /** The calls that waited when they were looked at last; null before the first time, which notifies of nothing. */
  const known = useRef<Set<string> | null>(null)
  useEffect(() => listOpenRunsOf(isApprover ? "tenant" : "mine"), [isApprover])
  useEffect(() => setWaitingInTitle(count), [count])
  useEffect(() => {
    const waiting = runs.filter(waitsForUser)
    const calls = waiting.flatMap((run) => run.calls.filter((call) => call.waits_for).map((call) => ({ run, call })))
    const before = known.current
    known.current = new Set(calls.map(({ call }) => call.id))
    if (!before) return
    for (const { run, call } of calls) {
      if (!before.has(call.id)) notifyHidden(t("inbox.notification", { tool: nameTool(call.tool, call.title) }), describe(run), call.id, () => open(run))
    }
  }, [runs, t])
}
