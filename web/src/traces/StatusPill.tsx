import { useSay } from "../locales"

const KIND = { queued: "", running: "running", waiting: "asking", ended: "ok", done: "ok", limit: "asking", cancelled: "", failed: "bad" }

export function StatusPill({ status }: { status: keyof typeof KIND }) {
  const say = useSay()
  return <span className={`pill ${KIND[status]}`}>{say(status === "ended" ? "status.done" : `status.${status}`)}</span>
}
