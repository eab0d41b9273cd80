import { X } from "lucide-react"
import { useMemo, useState, type FormEvent } from "react"
import { SelectFilter, TextFilter } from "../components/Filters"
import { MissingOperator } from "../components/MissingOperator"
import { OwnerFilter, useTenantByDefault } from "../components/OwnerFilter"
import { formatCount, formatDuration, formatShortDateTime } from "../app/format"
import { navigate, buildHref } from "../app/route"
import { toDigestSpending } from "../state/spending"
import { useTools } from "../state/tools"
import { describeCost } from "../usage/describeSpending"
import type { RunDigest, RunList } from "../wire/types"
import { usePages } from "../wire/usePages"
import { useLanguage, useTranslate } from "../locales"
import { StatusPill } from "./StatusPill"

const OUTCOMES = ["ok", "error", "denied", "expired", "timeout", "cancelled", "unknown"] as const
const COLUMNS = ["when", "status", "conversation", "user", "model", "took", "turns", "calls", "tokens", "cost"] as const
const NUMBER_COLUMNS = new Set<string>(["took", "turns", "tokens", "cost"])
const POLL_MS = 10_000
const ENDINGS = ["done", "limit", "cancelled", "failed"] as const

export function RunTable({ conversation }: { conversation: string }) {
  const t = useTranslate()
  const [filters, setFilters] = useState({ user: "", tool: "", outcome: "", ending: "" })
  const [everyone, setEveryone] = useState(useTenantByDefault())
  const path = useMemo(() => buildPath(conversation, filters, everyone), [conversation, filters, everyone])
  const { pages, problem, loadMore } = usePages<RunList>(path, POLL_MS)
  const runs = pages?.flatMap((page) => page.runs)
  const setFilter = (name: keyof typeof filters) => (value: string) => setFilters({ ...filters, [name]: value })
  return (
    <div className="page">
      <header className="page-head">
        <h1>{t("traces.title")}</h1>
        <OwnerFilter everyone={everyone} onChange={setEveryone} />
      </header>
      <MissingOperator />
      <div className="filters">
        <FindById label={t("traces.find")} find={(id) => navigate("traces", id)} />
        {!conversation && <FindById label={t("traces.findConversation")} find={(id) => navigate("traces", `in:${id}`)} />}
        {everyone && <TextFilter label={t("traces.user")} value={filters.user} onChange={setFilter("user")} />}
        <ToolFilter value={filters.tool} onChange={setFilter("tool")} />
        <SelectFilter label={t("traces.outcome")} value={filters.outcome} onChange={setFilter("outcome")} options={OUTCOMES} describe={(outcome) => t(`outcome.${outcome}`)} />
        <SelectFilter label={t("traces.ending")} value={filters.ending} onChange={setFilter("ending")} options={ENDINGS} describe={(ending) => t(`status.${ending}`)} />
        {conversation && (
          <a className="pill chosen" href={buildHref("traces")} title={t("traces.all")}>
            {t("traces.onlyHere")} <X aria-hidden />
          </a>
        )}
      </div>
      {problem && <p className="problem">{problem}</p>}
      {runs?.length === 0 && <p className="empty">{t("traces.none")}</p>}
      {runs && runs.length > 0 && <Table runs={runs} users={everyone} />}
      {loadMore && (
        <button className="quiet" onClick={loadMore}>
          {t("traces.more")}
        </button>
      )}
    </div>
  )
}

function Table({ runs, users }: { runs: RunDigest[]; users: boolean }) {
  const t = useTranslate()
  const language = useLanguage()
  return (
    <div className="table-frame" tabIndex={0}>
      <table className="runs">
        <thead>
          <tr>
            {COLUMNS.filter((name) => users || name !== "user").map((name) => (
              <th key={name} scope="col" className={NUMBER_COLUMNS.has(name) ? "number" : ""}>
                {t(`traces.${name}`)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <tr key={run.run_id}>
              <td>
                <a href={buildHref("traces", run.correlation_id)}>{formatShortDateTime(run.queued_at, language)}</a>
              </td>
              <td>
                <StatusPill status={run.ending ?? run.status} />
              </td>
              <td className="clip">
                <a href={buildHref("chat", run.conversation)}>{run.title || t("list.untitled")}</a>
              </td>
              {users && <td>{run.user}</td>}
              <td className="clip">{run.model}</td>
              <td className="number">{formatDuration(run.took_ms)}</td>
              <td className="number">{run.turns.length}</td>
              <td className="clip" title={run.calls.map((call) => `${call.tool}: ${call.outcome ?? ""}`).join("\n")}>
                <Calls run={run} />
              </td>
              <td className="number">{formatCount((run.usage.input_tokens ?? 0) + (run.usage.output_tokens ?? 0), language)}</td>
              <td className="number">
                <Cost run={run} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** What a run has cost. An unknown cost is a dash: its words would push the column out of the window. */
function Cost({ run }: { run: RunDigest }) {
  const language = useLanguage()
  const spending = toDigestSpending(run)
  const text = describeCost(spending, language)
  if (Object.keys(spending.micros).length || !text) return text
  return (
    <span title={text}>
      <span aria-hidden>–</span>
      <span className="visually-hidden">{text}</span>
    </span>
  )
}

function Calls({ run }: { run: RunDigest }) {
  const failed = run.calls.filter((call) => call.outcome !== "ok" && call.outcome !== null).length
  const names = [...new Set(run.calls.map((call) => call.tool))]
  return (
    <>
      {run.calls.length > 0 && `${run.calls.length} · `}
      <span className="tool-names">{names.join(", ")}</span>
      {failed > 0 && " "}
      {failed > 0 && <span className="pill bad">{failed}</span>}
    </>
  )
}

/** A field for an id that opens it on Enter: a part of an id leads nowhere. */
function FindById({ label, find }: { label: string; find: (id: string) => void }) {
  const [id, setId] = useState("")
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (id.trim()) find(id.trim())
  }
  return (
    <form onSubmit={submit}>
      <TextFilter label={label} value={id} onChange={setId} />
    </form>
  )
}

function ToolFilter({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const t = useTranslate()
  const tools = useTools()
  return (
    <label>
      <span>{t("traces.tool")}</span>
      <input list="tool-names" value={value} onChange={(event) => onChange(event.target.value)} />
      <datalist id="tool-names">
        {[...tools.keys()].map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </label>
  )
}

function buildPath(conversation: string, filters: Record<string, string>, everyone: boolean): string {
  const query = Object.entries({ conversation, ...filters }).filter(([, value]) => value.trim())
  if (everyone) query.push(["whose", "tenant"])
  return `traces?${query.map(([name, value]) => `${name}=${encodeURIComponent(value.trim())}`).join("&")}`
}
