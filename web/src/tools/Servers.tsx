// The MCP servers: how each is, what it offers, and what of it waits to be accepted.
import { useState } from "react"
import { isServerAdmin, useMe } from "../caller"
import { hrefOf } from "../route"
import { loadTools } from "../state/tools"
import { ask, part, said } from "../wire/http"
import type { OverviewAnswer, ServerList, ServerTools, ShownServer, ShownTool, ToolFigures } from "../wire/types"
import { useAnswer } from "../wire/useQuery"
import { useLanguage, useSay, type Word } from "../locales"
import { relative } from "../format"
import { useEveryone } from "../components/OwnerFilter"
import { healthOf } from "./health"
import { HealthLines } from "./HealthLines"
import { Quarantine } from "./Quarantine"

const LOOK_EVERY_MS = 3000
const WEEK_EVERY_MS = 30_000
const EXAMPLE = `[servers.files]
command = "npx"
args = ["-y", "@modelcontextprotocol/server-filesystem", "./docs"]`

export default function Servers({ id }: { id: string }) {
  const say = useSay()
  const { data, problem, again } = useAnswer<ServerList>("servers", LOOK_EVERY_MS)
  const week = useAnswer<OverviewAnswer>(`overview?hours=168${useEveryone() ? "&whose=tenant" : ""}`, WEEK_EVERY_MS)
  return (
    <div className="page">
      <header className="page-head">
        <h1>{say("servers.title")}</h1>
      </header>
      {problem && !data && <p className="problem">{problem}</p>}
      {data?.count === 0 && (
        <div className="empty">
          <p>{say("servers.none")}</p>
          <pre className="example">{EXAMPLE}</pre>
        </div>
      )}
      <ul className="cards">
        {data?.servers.map((server) => (
          <ServerCard key={server.id} server={server} figures={week.data?.overview.tools ?? []} opened={server.id === id} changed={again} />
        ))}
      </ul>
    </div>
  )
}

const PILLS: Record<string, string> = { running: "ok", idle: "", starting: "running", restarting: "asking", failed: "bad", stopped: "" }

interface ServerCardProps {
  server: ShownServer
  /** Of all tools there are. */
  figures: ToolFigures[]
  opened: boolean
  changed: () => void
}

function ServerCard({ server, figures, opened, changed }: ServerCardProps) {
  const say = useSay()
  const language = useLanguage()
  const admin = isServerAdmin(useMe())
  const [open, setOpen] = useState(opened)
  const tools = useAnswer<ServerTools>(`servers/${part(server.id)}/tools`, open || server.quarantined || server.rejected ? LOOK_EVERY_MS : 0)
  const own = new Set(tools.data?.tools.map((tool) => tool.offered_as || tool.name))
  const waiting = tools.data?.tools.filter((tool) => tool.state === "new" || tool.state === "changed" || tool.state === "rejected") ?? []
  const decided = () => {
    tools.again()
    changed()
    void loadTools()
  }
  const [problem, setProblem] = useState("")
  const [busy, setBusy] = useState(false)
  const act = async (...actions: string[]) => {
    setBusy(true)
    setProblem("")
    try {
      for (const action of actions) await ask("POST", `servers/${part(server.id)}/${action}`, {})
    } catch (error) {
      setProblem(said(error))
    }
    setBusy(false)
    changed()
    void loadTools()
  }
  const off = server.status === "stopped"
  return (
    <li className="card">
      <header>
        <h2 className="mono-title">{server.name}</h2>
        <span className={`pill ${PILLS[server.status] ?? ""}`}>{say(`server.${server.status}` as Word)}</span>
        {server.quarantined > 0 && <span className="pill asking">{say("servers.quarantine", { n: server.quarantined })}</span>}
        <span className="grow" />
        {admin && (
          <>
            {off ? (
              <button disabled={busy} onClick={() => void act("start")}>
                {say("servers.start")}
              </button>
            ) : (
              <>
                <button disabled={busy} onClick={() => void act("stop", "start")}>
                  {say("servers.restart")}
                </button>
                <button disabled={busy} onClick={() => void act("stop")}>
                  {say("servers.stop")}
                </button>
              </>
            )}
          </>
        )}
      </header>
      {server.error_message && <p className="problem">{server.error_message}</p>}
      <p className="facts">
        {server.started_at && <span>{say("servers.since", { when: relative(Date.parse(server.started_at) / 1000, Date.now() / 1000, language) })}</span>}
        <span>
          <b>{say("servers.restarts")}</b> {server.restarts}
        </span>
        {server.process_id !== null && (
          <span>
            <b>{say("servers.process")}</b> {server.process_id}
          </span>
        )}
        {server.protocol && <span>MCP {server.protocol}</span>}
        <span className="clip">{[server.config["command"], ...((server.config["args"] as string[] | undefined) ?? []), server.config["url"]].filter(Boolean).join(" ")}</span>
      </p>
      <HealthLines health={healthOf(figures.filter((one) => own.has(one.tool)))} />
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      {waiting.length > 0 && <Quarantine server={server.id} tools={waiting} admin={admin} decided={decided} />}
      <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          {say("servers.tools")}: {server.tools}
        </summary>
        <ul className="lines">
          {tools.data?.tools
            .filter((tool) => !waiting.includes(tool))
            .map((tool) => (
              <li key={tool.name}>
                <ToolLine tool={tool} />
              </li>
            ))}
        </ul>
      </details>
      {server.log.length > 0 && (
        <details>
          <summary>{say("servers.log")}</summary>
          <pre className="log" tabIndex={0}>
            {server.log.join("\n")}
          </pre>
        </details>
      )}
    </li>
  )
}

function ToolLine({ tool }: { tool: ShownTool }) {
  return (
    <a href={hrefOf("tools", tool.offered_as || tool.name)}>
      <code>{tool.offered_as || tool.name}</code>
      <small>{tool.state === "unusable" ? tool.difference : tool.description.split("\n")[0]}</small>
    </a>
  )
}
