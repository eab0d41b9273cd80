import { useTranslate } from "../locales"

const PILL_CLASSES = { queued: "", running: "running", waiting: "asking", ended: "ok", done: "ok", limit: "asking", cancelled: "", failed: "bad" }

export function StatusPill({ status }: { status: keyof typeof PILL_CLASSES }) {
  const t = useTranslate()
  return <span className={`pill ${PILL_CLASSES[status]}`}>{t(status === "ended" ? "status.done" : `status.${status}`)}</span>
}
