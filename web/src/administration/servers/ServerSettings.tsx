// What an administrator sets for an MCP server: whether it is trusted, what becomes of changed tools, its address and secrets.
import { useId, useState } from "react"
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

interface ServerSettingsProps {
  server: ServerView
  onChanged: () => void
}

export function ServerSettings({ server, onChanged }: ServerSettingsProps) {
  const a = useAdministrationText()
  const pinId = useId()
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
        {!server.configured && (
          <>
            <label className="visually-hidden" htmlFor={pinId}>
              {a("servers.pin")}
            </label>
            <select id={pinId} value={pin} onChange={(event) => void change({ pin: event.target.value })}>
              {PINS.map((choice) => (
                <option key={choice} value={choice}>
                  {a(`servers.pinChoice.${choice}`)}
                </option>
              ))}
            </select>
          </>
        )}
      </div>
      {server.configured && <p className="about">{a("servers.fromFile")}</p>}
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
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      {opened === "sign-in" && <ServerSignIn server={server} onChanged={onChanged} onClose={() => setOpened(null)} />}
      {opened === "change" && <ChangeServer server={server} onChanged={onChanged} onClose={() => setOpened(null)} />}
      {opened === "remove" && <RemoveDialog title={a("removeConfirm", { name: server.name })} action={a("remove")} remove={remove} onClose={() => setOpened(null)} />}
    </div>
  )
}
