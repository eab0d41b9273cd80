// One MCP server: its state, its tools, those that wait to be accepted, and its log.
import { useState, type ReactNode } from "react"
import { ProblemText } from "../components/ProblemText"
import { isServerAdmin, useMe } from "../session/caller"
import { loadTools } from "../state/tools"
import { requestJson } from "../wire/http"
import { useProblem } from "../wire/useProblem"
import type { ServerTools, ServerView, ToolFigures } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { useLanguage, useTranslate, type MessageKey } from "../locales"
import { formatRelative } from "../app/format"
import { AcceptedTools } from "./AcceptedTools"
import { summarizeHealth } from "./health"
import { HealthLines } from "./HealthLines"
import { Quarantine } from "./Quarantine"

const POLL_MS = 3000
const PILL_CLASSES: Record<string, string> = { running: "ok", idle: "", starting: "running", restarting: "asking", failed: "bad", stopped: "" }

interface ServerCardProps {
  server: ServerView
  /** The figures of all tools, of other servers too. */
  figures: ToolFigures[]
  opened: boolean
  onChanged: () => void
  /** What stands between the state of the server and its tools. */
  children?: ReactNode
}

export function ServerCard({ server, figures, opened, onChanged, children }: ServerCardProps) {
  const t = useTranslate()
  const language = useLanguage()
  const admin = isServerAdmin(useMe())
  const [open, setOpen] = useState(opened)
  const tools = useQuery<ServerTools>(`servers/${encodeURIComponent(server.id)}/tools`, open || server.quarantined || server.rejected ? POLL_MS : 0)
  const ownTools = new Set(tools.data?.tools.map((tool) => tool.offered_as || tool.name))
  const waiting = tools.data?.tools.filter((tool) => tool.state === "new" || tool.state === "changed" || tool.state === "rejected") ?? []
  const onDecided = () => {
    tools.refetch()
    onChanged()
    void loadTools()
  }
  const [problem, fail, clear] = useProblem()
  const [busy, setBusy] = useState(false)
  const act = async (...actions: string[]) => {
    setBusy(true)
    clear()
    try {
      for (const action of actions) await requestJson("POST", `servers/${encodeURIComponent(server.id)}/${action}`, {})
    } catch (error) {
      fail(error)
    }
    setBusy(false)
    onChanged()
    void loadTools()
  }
  const stopped = server.status === "stopped"
  return (
    <li className="card">
      <header>
        <h2 className="mono-title">{server.name}</h2>
        <span className={`pill ${PILL_CLASSES[server.status] ?? ""}`}>{t(`server.${server.status}` as MessageKey)}</span>
        {server.quarantined > 0 && <span className="pill asking">{t("servers.quarantine", { n: server.quarantined })}</span>}
        <span className="grow" />
        {admin && (
          <span className="actions">
            {stopped ? (
              <button disabled={busy} onClick={() => void act("start")}>
                {t("servers.start")}
              </button>
            ) : (
              <>
                <button disabled={busy} onClick={() => void act("stop", "start")}>
                  {t("servers.restart")}
                </button>
                <button disabled={busy} onClick={() => void act("stop")}>
                  {t("servers.stop")}
                </button>
              </>
            )}
          </span>
        )}
      </header>
      {server.error_message && <p className="problem">{server.error_message}</p>}
      <p className="facts">
        {server.started_at && <span>{t("servers.since", { when: formatRelative(Date.parse(server.started_at) / 1000, Date.now() / 1000, language) })}</span>}
        <span>
          <b>{t("servers.restarts")}</b> {server.restarts}
        </span>
        {server.process_id !== null && (
          <span>
            <b>{t("servers.process")}</b> {server.process_id}
          </span>
        )}
        {server.protocol && <span>MCP {server.protocol}</span>}
        <span className="clip">{[server.config["command"], ...((server.config["args"] as string[] | undefined) ?? []), server.config["url"]].filter(Boolean).join(" ")}</span>
      </p>
      <HealthLines health={summarizeHealth(figures.filter(({ tool }) => ownTools.has(tool)))} />
      <ProblemText text={problem} />
      {children}
      {waiting.length > 0 && <Quarantine server={server.id} tools={waiting} mayDecide={admin} onDecided={onDecided} />}
      <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          {t("servers.tools")}: {server.tools}
        </summary>
        {open && tools.data && <AcceptedTools server={server} tools={tools.data.tools.filter((tool) => !waiting.includes(tool))} onDecided={onDecided} />}
      </details>
      {server.log.length > 0 && (
        <details>
          <summary>{t("servers.log")}</summary>
          <pre className="log" tabIndex={0}>
            {server.log.join("\n")}
          </pre>
        </details>
      )}
    </li>
  )
}
