// The accepted tools of an MCP server, for those who decide on them: what was accepted, when and by whom.
import { isServerAdmin, useMe } from "../session/caller"
import { JsonView } from "../components/JsonView"
import { ProblemText } from "../components/ProblemText"
import { formatRelative } from "../app/format"
import { useLanguage, useTranslate } from "../locales"
import { requestJson } from "../wire/http"
import type { AuditEntryView, AuditPage, ServerToolView, ServerView } from "../wire/types"
import { useProblem } from "../wire/useProblem"
import { useQuery } from "../wire/useQuery"
import { findAcceptances } from "./acceptance"
import { ToolLine } from "./ToolLine"

interface AcceptedToolsProps {
  server: ServerView
  tools: ServerToolView[]
  onDecided: () => void
}

type Decision = "accept" | "reject"

export function AcceptedTools({ server, tools, onDecided }: AcceptedToolsProps) {
  const admin = isServerAdmin(useMe())
  const reviewed = tools.some((tool) => tool.reviewed)
  const { data } = useQuery<AuditPage>(admin && reviewed ? "audit?action=pin.accept&limit=1000" : null)
  const acceptances = findAcceptances(data?.entries ?? [], server.id)
  const [problem, fail, clear] = useProblem()
  const decide = (decision: Decision, name: string) => {
    clear()
    requestJson("POST", `servers/${encodeURIComponent(server.id)}/${decision}`, { tools: [name] }).then(onDecided, fail)
  }
  return (
    <>
      <ProblemText text={problem} />
      <ul className="lines">
        {tools.map((tool) => (
          <li key={tool.name}>
            <ToolLine tool={tool} />
            {admin && tool.state === "accepted" && <Acceptance tool={tool} entry={acceptances.get(tool.name)} decisions={listDecisions(server, tool)} decide={decide} />}
          </li>
        ))}
      </ul>
    </>
  )
}

/** Return what can still be decided on an accepted tool. */
function listDecisions(server: ServerView, tool: ServerToolView): Decision[] {
  const decisions: Decision[] = []
  // What nobody has read counts as untrusted content, unless the server is trusted as a whole.
  if (!tool.reviewed && !server.config["trust"]) decisions.push("accept")
  // Without pins every definition is accepted again when it is listed next.
  if (server.config["pin"] !== "off") decisions.push("reject")
  return decisions
}

interface AcceptanceProps {
  tool: ServerToolView
  /** The entry of the audit log about it, if it is still there. */
  entry: AuditEntryView | undefined
  decisions: Decision[]
  decide: (decision: Decision, name: string) => void
}

function Acceptance({ tool, entry, decisions, decide }: AcceptanceProps) {
  const t = useTranslate()
  const language = useLanguage()
  const describe = () => {
    if (!tool.reviewed) return t("servers.acceptedFirst")
    return entry ? t("servers.acceptedBy", { by: entry.actor || t("audit.server"), when: formatRelative(entry.at, Date.now() / 1000, language) }) : t("servers.acceptedByAdmin")
  }
  return (
    <div className="acceptance">
      <details>
        <summary>{describe()}</summary>
        <JsonView value={{ description: tool.description, input_schema: tool.input_schema }} />
      </details>
      {decisions.map((decision) => (
        <button key={decision} className="quiet" aria-label={t(`servers.${decision}Of`, { tool: tool.name })} onClick={() => decide(decision, tool.name)}>
          {t(decision === "accept" ? "servers.accept" : "servers.withdraw")}
        </button>
      ))}
    </div>
  )
}
