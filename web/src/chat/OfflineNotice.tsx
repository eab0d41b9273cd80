import { useAnswer } from "../wire/useQuery"
import type { ModelList } from "../wire/types"
import { useSay } from "../locales"

/** A quiet line where no language model is set up, with what to do about it. */
export function OfflineNotice() {
  const say = useSay()
  const { data } = useAnswer<ModelList>("models")
  if (!data?.hint) return null
  return (
    <details className="offline-notice">
      <summary>
        {say("offline.line")} <span>{say("offline.connect")}</span>
      </summary>
      <p>{data.hint}</p>
    </details>
  )
}
