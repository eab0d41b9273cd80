// What an administrator sets for an MCP server: whether it is trusted, what becomes of changed tools, its address and secrets.
import { useState } from "react"
import { Select } from "../../components/Select"
import { ProblemText } from "../../components/ProblemText"
import { useAdministrationText } from "../../locales/administration"
import { loadTools } from "../../state/tools"
import { request } from "../../wire/http"
import type { ServerView } from "../../wire/types"
import { RemoveDialog } from "../settings/RemoveDialog"
import { buildVersionHeaders } from "../settings/requests"
import { describeChangeError } from "./changeError"
import { ChangeServer } from "./ChangeServer"
import { maySignIn } from "./serverConfig"
import ServerSignIn from "./ServerSignIn"

const PINS = ["on", "review", "off"] as const
const AUTHS = ["server", "caller"] as const

interface ServerSettingsProps {
  server: ServerView
  onChanged: () => void
}

export function ServerSettings({ server, onChanged }: ServerSettingsProps) {
  const a = useAdministrationText()
  const [opened, setOpened] = useState<"sign-in" | "change" | "remove" | null>(null)
  const [problem, setProblem] = useState("")
  const path = `servers/${encodeURIComponent(server.id)}`
  const headers = server.version ? buildVersionHeaders(server.version) : {} // one of the file has no version
  const change = async (fields: Record<string, unknown>) => {
    setProblem("")
    try {
      await request("PUT", path, fields, { headers })
    } catch (error) {
      setProblem(describeChangeError(error, a))
    }
    onChanged()
    void loadTools()
  }
  const remove = async () => {
    await request("DELETE", path, undefined, { headers })
    setOpened(null)
    onChanged()
    void loadTools()
  }
  const trusted = server.config["trust"] === true
  const auth = AUTHS.find((choice) => choice === server.config["auth"]) ?? "server"
  const pin = PINS.find((choice) => choice === server.config["pin"]) ?? "on"
  return (
    <div className="server-settings">
      {server.warning && <p className="problem">{server.warning}</p>}
      {server.conflict && (
        <div className="newer">
          <p>
            <strong>{a("conflict")}:</strong> {server.conflict}
          </p>
          <div className="button-row">
            <button onClick={() => setOpened("remove")}>{a("removeStored")}</button>
          </div>
        </div>
      )}
      <div className="setting-line">
        <p>{a(trusted ? "servers.trustOn" : "servers.trustOff")}</p>
        {!server.configured && <button onClick={() => void change({ trust: !trusted })}>{a(trusted ? "servers.doDistrust" : "servers.doTrust")}</button>}
      </div>
      <div className="setting-line">
        <p>{a(`servers.pin.${pin}`)}</p>
        {!server.configured && <Select label={a("servers.pin")} value={pin} onChange={(choice) => void change({ pin: choice })} options={PINS.map((choice) => ({ value: choice, label: a(`servers.pinChoice.${choice}`) }))} />}
      </div>
      {maySignIn(server) && (
        <div className="setting-line">
          <p>{a(`servers.auth.${auth}`)}</p>
          {!server.configured && <Select label={a("servers.auth")} value={auth} onChange={(choice) => void change({ auth: choice })} options={AUTHS.map((choice) => ({ value: choice, label: a(`servers.authChoice.${choice}`) }))} />}
        </div>
      )}
      {server.configured && <p className="about">{server.location ? a("location", { location: server.location }) : a("servers.fromFile")}</p>}
      <div className="button-row">
        {maySignIn(server) && (
          <button aria-label={a("servers.signInOf", { name: server.name })} onClick={() => setOpened("sign-in")}>
            {a("servers.signIn")}
          </button>
        )}
        {!server.configured && (
          <>
            <button aria-label={`${a("servers.change")}: ${server.name}`} onClick={() => setOpened("change")}>
              {a("servers.change")}
            </button>
            <button className="quiet" aria-label={a("removeOf", { name: server.name })} onClick={() => setOpened("remove")}>
              {a("remove")}
            </button>
          </>
        )}
      </div>
      <ProblemText text={problem} />
      {opened === "sign-in" && <ServerSignIn server={server} onChanged={onChanged} onClose={() => setOpened(null)} />}
      {opened === "change" && <ChangeServer server={server} onChanged={onChanged} onClose={() => setOpened(null)} />}
      {opened === "remove" && <RemoveDialog title={a("removeConfirm", { name: server.name })} action={a("remove")} remove={remove} onClose={() => setOpened(null)} />}
    </div>
  )
}
