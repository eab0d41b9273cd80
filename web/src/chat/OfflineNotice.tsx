import { useQuery } from "../wire/useQuery"
import type { ModelList } from "../wire/types"
import { useTranslate } from "../locales"

/** A line that says that no language model is configured, and how to configure one. */
export function OfflineNotice() {
  const t = useTranslate()
  const { data } = useQuery<ModelList>("models")
  if (!data?.hint) return null
  return (
    <details className="offline-notice">
      <summary>
        {t("offline.line")} <span>{t("offline.connect")}</span>
      </summary>
      <p>{data.hint}</p>
    </details>
  )
}
