// The MCP servers that the user has signed in to, and those where each user signs in for themselves.
import { Suspense, lazy, useId, useState } from "react"
import { ProblemText } from "../components/ProblemText"
import { formatDateTime } from "../app/format"
import { useLanguage, useTranslate } from "../locales"
import { loadTools } from "../state/tools"
import { requestJson } from "../wire/http"
import type { ConnectionList, ConnectionView, ServerView } from "../wire/types"
import { useProblem } from "../wire/useProblem"
import { useQuery } from "../wire/useQuery"

const ServerSignIn = lazy(() => import("../administration/servers/ServerSignIn"))

interface ConnectionsProps {
  servers: ServerView[]
  onChanged: () => void
}

export function Connections({ servers, onChanged }: ConnectionsProps) {
  const t = useTranslate()
  const heading = useId()
  const { data, refetch } = useQuery<ConnectionList>("connections")
  const [signingIn, setSigningIn] = useState<ServerView | null>(null)
  const [problem, fail, clear] = useProblem()
  const refresh = () => {
    refetch()
    onChanged()
    void loadTools()
  }
  const revoke = (connection: ConnectionView) => {
    clear()
    requestJson("DELETE", `connections/${encodeURIComponent(connection.server_id)}`).then(refresh, fail)
  }
  const missing = servers.filter(({ id, config }) => config["auth"] === "caller" && config["transport"] === "http" && !data?.connections.some(({ server_id }) => server_id === id))
  if (!data || (data.count === 0 && missing.length === 0)) return null
  return (
    <section aria-labelledby={heading}>
      <h2 id={heading}>{t("connections.title")}</h2>
      <p className="about">{t("connections.about")}</p>
      <ProblemText text={problem} />
      {data.count === 0 && <p className="empty">{t("connections.none")}</p>}
      <ul className="cards">
        {data.connections.map((connection) => (
          <ConnectionCard key={connection.server_id} connection={connection} revoke={() => revoke(connection)} />
        ))}
        {missing.map((server) => (
          <li className="card" key={server.id}>
            <header>
              <h3>{server.name}</h3>
              <span className="pill">{t("connections.missing")}</span>
              <span className="grow" />
              <button aria-label={t("connections.signInOf", { name: server.name })} onClick={() => setSigningIn(server)}>
                {t("connections.signIn")}
              </button>
            </header>
          </li>
        ))}
      </ul>
      {signingIn && (
        <Suspense fallback={null}>
          <ServerSignIn server={signingIn} onChanged={refresh} onClose={() => setSigningIn(null)} />
        </Suspense>
      )}
    </section>
  )
}

function ConnectionCard({ connection, revoke }: { connection: ConnectionView; revoke: () => void }) {
  const t = useTranslate()
  const language = useLanguage()
  const { server_name: name, expires_at: expiresAt } = connection
  return (
    <li className="card">
      <header>
        <h3>{name}</h3>
        {connection.shared && <span className="pill">{t("connections.shared")}</span>}
        <span className="grow" />
        <button aria-label={t("connections.revokeOf", { name })} onClick={revoke}>
          {t("connections.revoke")}
        </button>
      </header>
      <p className="facts">
        <span>{connection.issuer}</span>
        {connection.scope && <span>{connection.scope}</span>}
        {expiresAt && <span>{t(connection.renewable ? "connections.renewed" : "connections.until", { when: formatDateTime(Date.parse(expiresAt) / 1000, language) })}</span>}
      </p>
      {connection.problem && <p className="problem">{connection.problem}</p>}
    </li>
  )
}
