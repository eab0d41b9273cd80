// The MCP servers: their state, their tools, and the tools that wait to be accepted.
import { isServerAdmin, useMe } from "../session/caller"
import type { OverviewAnswer, ServerList } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { useTranslate } from "../locales"
import { buildHref } from "../app/route"
import { useTenantByDefault } from "../components/OwnerFilter"
import { Connections } from "./Connections"
import { ServerCard } from "./ServerCard"

const POLL_MS = 3000
const WEEK_POLL_MS = 30_000
const EXAMPLE = `[servers.files]
command = "npx"
args = ["-y", "@modelcontextprotocol/server-filesystem", "./docs"]`

export default function Servers({ id }: { id: string }) {
  const t = useTranslate()
  const admin = isServerAdmin(useMe())
  const { data, problem, refetch } = useQuery<ServerList>("servers", POLL_MS)
  const week = useQuery<OverviewAnswer>(`overview?hours=168${useTenantByDefault() ? "&whose=tenant" : ""}`, WEEK_POLL_MS)
  return (
    <div className="page">
      <header className="page-head">
        <h1>{t("servers.title")}</h1>
      </header>
      {problem && !data && <p className="problem">{problem}</p>}
      {data?.count === 0 && (
        <div className="empty">
          <p>{t("servers.none")}</p>
          <pre className="example">{EXAMPLE}</pre>
          {admin && <a href={buildHref("administration", "servers/add")}>{t("servers.addHere")}</a>}
        </div>
      )}
      <ul className="cards">
        {data?.servers.map((server) => (
          <ServerCard key={server.id} server={server} figures={week.data?.overview.tools ?? []} opened={server.id === id} onChanged={refetch} />
        ))}
      </ul>
      {data && data.count > 0 && <Connections servers={data.servers} onChanged={refetch} />}
    </div>
  )
}
