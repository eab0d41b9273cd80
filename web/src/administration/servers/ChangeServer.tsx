// Changes how an MCP server is reached, and its secrets, which are write-only.
import { useState, type FormEvent } from "react"
import { Dialog } from "../../components/Dialog"
import { JsonView } from "../../components/JsonView"
import { ProblemText } from "../../components/ProblemText"
import { useTranslate } from "../../locales"
import { useAdministrationText } from "../../locales/administration"
import { loadTools } from "../../state/tools"
import { HttpError, request } from "../../wire/http"
import type { ServerView } from "../../wire/types"
import { FieldInput } from "../settings/FieldInput"
import { findFieldProblem, withValue, type Values } from "../settings/fieldKinds"
import { buildVersionHeaders, findNewer } from "../settings/requests"
import { describeChangeError } from "./changeError"

const FIELDS = {
  http: [
    { name: "url", kind: "text", label: "servers.url" },
    { name: "headers", kind: "map", label: "servers.headers" },
  ],
  stdio: [
    { name: "command", kind: "text", label: "servers.command" },
    { name: "args", kind: "list", label: "servers.args" },
    { name: "env", kind: "map", label: "servers.env" },
  ],
} as const
/** What a field that was emptied is sent as: one that is left out stays as it is. */
const EMPTY: Values = { url: "", command: "", args: [], headers: {}, env: {} }

export function ChangeServer({ server, onChanged, onClose }: { server: ServerView; onChanged: () => void; onClose: () => void }) {
  const t = useTranslate()
  const a = useAdministrationText()
  const fields = FIELDS[server.config["transport"] === "http" ? "http" : "stdio"]
  const toValues = (shown: ServerView): Values => Object.fromEntries(fields.map(({ name }) => [name, shown.config[name]]))
  const [values, setValues] = useState<Values>(() => toValues(server))
  const [version, setVersion] = useState(server.version) // the one that the user sees: the list is polled meanwhile
  const [newer, setNewer] = useState<ServerView | null>(null)
  const [round, setRound] = useState(0) // inputs keep what is typed, so they are made anew for other values
  const [problem, setProblem] = useState("")
  const [fieldProblems, setFieldProblems] = useState<Record<string, string>>({})
  const [busy, setBusy] = useState(false)
  const save = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setProblem("")
    try {
      const changes = Object.fromEntries(fields.map(({ name }) => [name, values[name] ?? EMPTY[name]]))
      await request("PUT", `servers/${encodeURIComponent(server.id)}`, changes, { headers: buildVersionHeaders(version) })
      onChanged()
      void loadTools()
      onClose()
    } catch (error) {
      const problems = error instanceof HttpError ? Object.entries(error.fields).map(([key, message]) => [key.replace(/^server\./, ""), message]) : []
      setFieldProblems(Object.fromEntries(problems))
      const current = findNewer<ServerView>(error)
      if (current) setNewer(current)
      else setProblem(describeChangeError(error, a))
      setBusy(false)
    }
  }
  const settle = (chosen: Values) => {
    setValues(chosen)
    setVersion(newer?.version ?? version)
    setNewer(null)
    setRound(round + 1)
  }
  return (
    <Dialog title={a("editOf", { name: server.name })} onClose={onClose}>
      <form className="entry-form" onSubmit={(event) => void save(event)}>
        {fields.map(({ name, kind, label }) => (
          <FieldInput key={`${round}/${name}`} label={a(label)} kind={kind} secret={kind === "map"} hint={kind === "map" ? a("servers.writeOnly") : undefined} value={values[name]} problem={findFieldProblem(fieldProblems, name)} onChange={(value) => setValues((old) => withValue(old, name, value))} />
        ))}
        {newer && (
          <div className="newer" role="alert">
            <p>{a("outdated")}</p>
            <JsonView value={newer.config} />
            <div className="button-row">
              <button type="button" onClick={() => settle(toValues(newer))}>
                {a("useNewer")}
              </button>
              <button type="button" onClick={() => settle(values)}>
                {a("keepMine")}
              </button>
            </div>
          </div>
        )}
        <ProblemText text={problem} />
        <footer>
          <button type="button" onClick={onClose}>
            {t("common.cancel")}
          </button>
          <button className="primary" disabled={busy || newer !== null}>
            {t("common.save")}
          </button>
        </footer>
      </form>
    </Dialog>
  )
}
