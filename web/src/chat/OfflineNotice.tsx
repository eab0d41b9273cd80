import { OFFLINE_MODEL, useModels } from "../state/models"
import { buildHref } from "../app/route"
import { useTranslate } from "../locales"

/** A line that says that no language model answers here, with a link to the page that tells how to connect one. */
export function OfflineNotice({ model }: { model: string }) {
  const t = useTranslate()
  const models = useModels()
  const id = model || models?.models.find((card) => card.default)?.id
  if (id !== OFFLINE_MODEL) return null
  return (
    <p className="offline-notice">
      {t("offline.line")} <a href={buildHref("setup")}>{t("offline.connect")}</a>
    </p>
  )
}
