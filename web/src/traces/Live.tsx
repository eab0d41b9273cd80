// The runs that are active or waiting now.
import { useState } from "react"
import { MissingOperator } from "../components/MissingOperator"
import { OwnerFilter, useTenantByDefault } from "../components/OwnerFilter"
import type { LiveAnswer } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { useTranslate } from "../locales"
import { OpenRunCard } from "./OpenRunCard"

const POLL_MS = 1500

export default function Live() {
  const t = useTranslate()
  const [everyone, setEveryone] = useState(useTenantByDefault())
  const { data, problem, refetch } = useQuery<LiveAnswer>(`live?details=true${everyone ? "&whose=tenant" : ""}`, POLL_MS)
  return (
    <div className="page">
      <header className="page-head">
        <h1>{t("live.title")}</h1>
        <OwnerFilter everyone={everyone} onChange={setEveryone} />
      </header>
      <MissingOperator />
      {problem && !data && <p className="problem">{problem}</p>}
      {data?.count === 0 && <p className="empty">{t("live.none")}</p>}
      <ul className="cards">
        {data?.runs.map((run) => (
          <OpenRunCard key={run.run_id} run={run} onChanged={refetch} />
        ))}
      </ul>
    </div>
  )
}
