// Changes how an MCP server is reached, and its secrets, which are write-only.
import { useState, type FormEvent } from "react"
import { Dialog } from "../../components/Dialog"
import { useTranslate } from "../../locales"
import { useAdministrationText } from "../../locales/administration"
import { loadTools } from "../../state/tools"
import { HttpError, request } from "../../wire/http"
import type { ServerView } from "../../wire/types"
import { FieldInput } from "../settings/FieldInput"
import { findFieldProblem, withValue, type Values } from "../settings/fieldKinds"
import { buildVersionHeaders } from "../settings/requests"
import { describeChangeError } from "./changeError"

const FIELDS = {
  http: [
    { name: "url", kind: "text", label: "servers.url" },
    { name: "headers", kind: "table", label: "servers.headers" },
  ],
  stdio: [
    { name: "command", kind: "text", label: "servers.command" },
    { name: "args", kind: "lines", label: "servers.args" },
    { name: "env", kind: "table", label: "servers.env" },
  ],
} as const
/** What a field that was emptied is sent as: one that is left out stays as it is. */
const EMPTY: Values = { url: "", command: "", args: [], headers: {}, env: {} }

export function ChangeServer({ server, onChanged, onClose }: { server: ServerView; onChanged: () => void; onClose: () => void }) {
  const t = useTranslate()
  const a = useAdministrationText()
  const fields = FIELDS[server.config["transport"] === "http" ? "http" : "stdio"]
  const [values, setValues] = useState<Values>(() => Object.fromEntries(fields.map(({ name }) => [name, server.config[name]])))
  const [version] = useState(server.version) // the one that the user sees: the list is polled meanwhile
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
      setProblem(describeChangeError(error, a))
      setBusy(false)
    }
  }
  return (
    <Dialog title={a("editOf", { name: server.name })} onClose={onClose}>
      <form className="entry-form" onSubmit={(event) => void save(event)}>
        {fields.map(({ name, kind, label }) => (
          <FieldInput key={name} label={a(label)} kind={kind} secret={kind === "table"} hint={kind === "table" ? a("servers.writeOnly") : undefined} value={values[name]} problem={findFieldProblem(fieldProblems, name)} onChange={(value) => setValues((old) => withValue(old, name, value))} />
        ))}
        {problem && (
          <p className="problem" role="alert">
            {problem}
          </p>
        )}
        <footer>
          <button type="button" onClick={onClose}>
            {t("common.cancel")}
          </button>
          <button className="primary" disabled={busy}>
            {t("common.save")}
          </button>
        </footer>
      </form>
    </Dialog>
  )
}
