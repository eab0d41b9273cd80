// The MCP servers with what an administrator sets for each, and the form that adds one.
import { Plus } from "lucide-react"
import { useState } from "react"
import { navigate } from "../../app/route"
import { useTenantByDefault } from "../../components/OwnerFilter"
import { useAdministrationText } from "../../locales/administration"
import { useMe } from "../../session/caller"
import { loadTools } from "../../state/tools"
import { ServerCard } from "../../tools/ServerCard"
import type { OverviewAnswer, ServerList, ServerView } from "../../wire/types"
import { useQuery } from "../../wire/useQuery"
import { useSettings } from "../settings/requests"
import { AddServer } from "./AddServer"
import { findAddable } from "./serverConfig"
import { ServerSettings } from "./ServerSettings"

const POLL_MS = 3000
const WEEK_POLL_MS = 30_000

/** `adding` shows the form for a new server. */
export function McpServers({ adding }: { adding: boolean }) {
  const a = useAdministrationText()
  const { keyless } = useMe()
  const { data, problem, refetch } = useQuery<ServerList>("servers", POLL_MS)
  const settings = useSettings()
  const week = useQuery<OverviewAnswer>(`overview?hours=168${useTenantByDefault() ? "&whose=tenant" : ""}`, WEEK_POLL_MS)
  const [message, setMessage] = useState("")
  const addable = findAddable(settings.data?.fixed ?? [], keyless)
  const close = () => navigate("administration", "servers")
  const onAdded = (servers: ServerView[]) => {
    close()
    setMessage(a("servers.added", { names: servers.map(({ name }) => name).join(", ") }))
    refetch()
    void loadTools()
  }
  return (
    <>
      <header className="section-head">
        <p className="about">{a("servers.about")}</p>
        {addable !== "off" && (
          <button className="primary" onClick={() => navigate("administration", "servers/add")}>
            <Plus aria-hidden /> {a("servers.add")}
          </button>
        )}
      </header>
      <div role="status">{message && <p className="good">{message}</p>}</div>
      {problem && !data && <p className="problem">{problem}</p>}
      {data?.count === 0 && <p className="empty">{a("servers.none")}</p>}
      <ul className="cards">
        {data?.servers.map((server) => (
          <ServerCard key={server.id} server={server} figures={week.data?.overview.tools ?? []} opened={false} onChanged={refetch}>
            <ServerSettings server={server} onChanged={refetch} />
          </ServerCard>
        ))}
      </ul>
      {adding && <AddServer addable={addable} onAdded={onAdded} onClose={close} />}
    </>
  )
}
