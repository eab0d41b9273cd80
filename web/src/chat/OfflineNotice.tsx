import { OFFLINE_MODEL, useModels } from "../state/models"
import type { ConversationView } from "../state/view"
import { buildHref } from "../app/route"
import { useTranslate } from "../locales"
import { isServerAdmin, useMe } from "../session/caller"

/** Return whether the offline model gives the first answer, which says itself that it is no language model. */
export function isIntroduced(view: ConversationView): boolean {
  const first = view.rows.find((row) => row.kind === "turn" && row.number > 0)
  return first?.kind === "turn" && (first.open || first.model === OFFLINE_MODEL)
}

/** A line that says that no language model answers here, and how one is connected: by the first steps of an administrator. */
export function OfflineNotice({ model }: { model: string }) {
  const t = useTranslate()
  const models = useModels()
  const admin = isServerAdmin(useMe())
  const id = model || models?.models.find((card) => card.default)?.id
  if (id !== OFFLINE_MODEL) return null
  return (
    <p className="offline-notice">
      {t("offline.line")} {admin ? <a href={buildHref("administration", "start")}>{t("offline.setUp")}</a> : t("offline.askAdmin")}
    </p>
  )
}
