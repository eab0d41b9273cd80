// The runs that are active or wait now, polled once for the whole page: the list of conversations, the title of the tab and
// the notifications all show something of them.
import { useMemo, useSyncExternalStore } from "react"
import { isNetworkError } from "../wire/describeError"
import { requestJson } from "../wire/http"
import { noteReachable } from "../wire/reachability"
import type { LiveAnswer, OpenRun } from "../wire/types"

const POLL_MS = 4000
/** The runs that name the user are asked for once in so many times: the server looks through all that wait in the tenant. */
const DECIDING_EVERY = 4
const NO_RUNS: OpenRun[] = []

let runs = NO_RUNS
/** Runs of other users with calls that name this user as an approver, without the calls that do not. */
let deciding = NO_RUNS
/** Both, without those that are in both. */
let open = NO_RUNS
let untilDeciding = 0
let timer = 0
/** Whether the runs of the whole tenant are listed: an approver decides for others. */
let everyone = false
const listeners = new Set<() => void>()

/** Request the runs now, such as after a decision, and go on polling from here. */
export async function loadOpenRuns(): Promise<void> {
  if (deciding.length) untilDeciding = 0 // one of them may be decided now
  await poll()
}

async function poll(): Promise<void> {
  clearTimeout(timer)
  // The runs of the whole tenant hold all that this user may decide.
  const looksForNamed = !everyone && untilDeciding-- <= 0
  if (looksForNamed) untilDeciding = DECIDING_EVERY - 1
  try {
    const [listed, named] = await Promise.all([
      requestJson<LiveAnswer>("GET", `live${everyone ? "?whose=tenant" : ""}`),
      looksForNamed ? requestJson<LiveAnswer>("GET", "live?whose=deciding") : null,
    ])
    noteReachable(true)
    runs = listed.runs
    if (named || everyone) deciding = named?.runs ?? NO_RUNS
    const all = [...runs, ...deciding.filter((run) => !runs.some((other) => other.run_id === run.run_id))]
    // The same runs keep their identity, so that nothing renders again while nothing changes.
    if (JSON.stringify(all) !== JSON.stringify(open)) {
      open = all
      for (const listener of listeners) listener()
    }
  } catch (error) {
    // What was known stays until the server can be reached again.
    if (isNetworkError(error)) noteReachable(false)
  }
  clearTimeout(timer)
  // A hidden tab goes on polling, for its notifications; browsers slow its timers down by themselves.
  if (listeners.size) timer = window.setTimeout(() => void poll(), POLL_MS)
}

/** List the runs of the whole tenant from now on, or only the user's own. */
export function listOpenRunsOf(whose: "mine" | "tenant"): void {
  everyone = whose === "tenant"
  if (listeners.size) void loadOpenRuns()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  if (listeners.size === 1) void loadOpenRuns()
  return () => {
    listeners.delete(listener)
    if (!listeners.size) clearTimeout(timer)
  }
}

/** Return the open runs that are listed, and those in which the user is named as an approver. */
export function useOpenRuns(): OpenRun[] {
  return useSyncExternalStore(subscribe, () => open)
}

/** Return whether a run has a call that the user may decide or answer. Calls of applications wait for somebody else. */
export function waitsForUser(run: OpenRun): boolean {
  return run.calls.some((call) => isForUser(run, call))
}

function isForUser(run: OpenRun, call: OpenRun["calls"][number]): boolean {
  return call.approval ? call.approval.may_decide : run.may_stop && call.waits_for === "answer"
}

/** Return how many calls wait for the user. */
export function useWaitingCount(): number {
  const all = useOpenRuns()
  return useMemo(() => all.filter(waitsForUser).reduce((total, run) => total + run.calls.filter((call) => isForUser(run, call)).length, 0), [all])
}
