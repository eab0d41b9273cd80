import { X } from "lucide-react"
import { useEffect, useMemo, useState, type FormEvent } from "react"
import { Whose, useEveryone } from "../components/OwnerFilter"
import { count, duration, shortly } from "../format"
import { go, hrefOf } from "../route"
import { useTools } from "../state/tools"
import { ask, part, said } from "../wire/http"
import type { RunDigest, RunList } from "../wire/types"
import { useAnswer } from "../wire/useQuery"
import { useLanguage, useSay, type Word } from "../locales"
import { StatusPill } from "./StatusPill"

const OUTCOMES = ["ok", "error", "denied", "expired", "timeout", "cancelled", "unknown"] as const
const COLUMNS = ["when", "status", "conversation", "user", "model", "took", "turns", "calls", "tokens"] as const
const NUMBERS = new Set<string>(["took", "turns", "tokens"])
const ENDINGS = ["done", "limit", "cancelled", "failed"] as const

export function RunTable({ conversation }: { conversation: string }) {
  const say = useSay()
  const [wanted, setWanted] = useState({ user: "", tool: "", outcome: "", ending: "" })
  const [everyone, setEveryone] = useState(useEveryone())
  const path = useMemo(() => pathOf(conversation, wanted, everyone), [conversation, wanted, everyone])
  const { data, problem } = useAnswer<RunList>(path, 10_000)
  const { earlier, next, more, failed } = useEarlier(path, data)
  const runs = [...(data?.runs ?? []), ...earlier]
  const set = (name: keyof typeof wanted) => (value: string) => setWanted({ ...wanted, [name]: value })
  return (
    <div className="page">
      <header className="page-head">
        <h1>{say("traces.title")}</h1>
        <Whose everyone={everyone} onChange={setEveryone} />
      </header>
      <div className="filters">
        <FindById label={say("traces.find")} find={(id) => go("traces", id)} />
        {!conversation && <FindById label={say("traces.findConversation")} find={(id) => go("traces", `in:${id}`)} />}
        {everyone && <TextFilter label={say("traces.user")} value={wanted.user} onChange={set("user")} />}
        <ToolFilter value={wanted.tool} onChange={set("tool")} />
        <Choice label={say("traces.outcome")} value={wanted.outcome} onChange={set("outcome")} options={OUTCOMES} word={(one) => `outcome.${one}` as Word} />
        <Choice label={say("traces.ending")} value={wanted.ending} onChange={set("ending")} options={ENDINGS} word={(one) => `status.${one}` as Word} />
        {conversation && (
          <a className="pill chosen" href={hrefOf("traces")} title={say("traces.all")}>
            {say("traces.onlyHere")} <X aria-hidden />
          </a>
        )}
      </div>
      {(problem || failed) && <p className="problem">{problem || failed}</p>}
      {data && runs.length === 0 && <p className="empty">{say("traces.none")}</p>}
      {runs.length > 0 && <Table runs={runs} users={everyone} />}
      {next && (
        <button className="quiet" onClick={more}>
          {say("traces.more")}
        </button>
      )}
    </div>
  )
}

function Table({ runs, users }: { runs: RunDigest[]; users: boolean }) {
  const say = useSay()
  const language = useLanguage()
  return (
    <div className="table-frame" tabIndex={0}>
      <table className="runs">
        <thead>
          <tr>
            {COLUMNS.filter((name) => users || name !== "user").map((name) => (
              <th key={name} scope="col" className={NUMBERS.has(name) ? "number" : ""}>
                {say(`traces.${name}`)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <tr key={run.run_id}>
              <td>
                <a href={hrefOf("traces", run.correlation_id)}>{shortly(run.queued_at, language)}</a>
              </td>
              <td>
                <StatusPill status={run.ending ?? run.status} />
              </td>
              <td className="clip">
                <a href={hrefOf("chat", run.conversation)}>{run.title || say("list.untitled")}</a>
              </td>
              {users && <td>{run.user}</td>}
              <td className="clip">{run.model}</td>
              <td className="number">{duration(run.took_ms)}</td>
              <td className="number">{run.turns.length}</td>
              <td className="clip" title={run.calls.map((call) => `${call.tool}: ${call.outcome ?? ""}`).join("\n")}>
                <Calls run={run} />
              </td>
              <td className="number">{count((run.usage.input_tokens ?? 0) + (run.usage.output_tokens ?? 0), language)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
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

/** An id, looked for when it is complete. */
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

function TextFilter({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }) {
  return (
    <label>
      <span>{label}</span>
      <input value={value} onChange={(event) => onChange(event.target.value)} />
    </label>
  )
}

function ToolFilter({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const say = useSay()
  const tools = useTools()
  return (
    <label>
      <span>{say("traces.tool")}</span>
      <input list="tool-names" value={value} onChange={(event) => onChange(event.target.value)} />
      <datalist id="tool-names">
        {[...tools.keys()].map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </label>
  )
}

function Choice<T extends string>({ label, value, onChange, options, word }: { label: string; value: string; onChange: (value: string) => void; options: readonly T[]; word: (option: T) => Word }) {
  const say = useSay()
  return (
    <label>
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="">{say("traces.any")}</option>
        {options.map((option) => (
          <option key={option} value={option}>
            {say(word(option))}
          </option>
        ))}
      </select>
    </label>
  )
}

function pathOf(conversation: string, wanted: Record<string, string>, everyone: boolean): string {
  const query = Object.entries({ conversation, ...wanted }).filter(([, value]) => value.trim())
  if (everyone) query.push(["whose", "tenant"])
  return `traces?${query.map(([name, value]) => `${name}=${part(value.trim())}`).join("&")}`
}

/** The pages after the first, which alone is kept up to date. */
function useEarlier(path: string, first: RunList | null) {
  const [earlier, setEarlier] = useState<{ path: string; runs: RunDigest[]; next: string | null } | null>(null)
  const [failed, setFailed] = useState("")
  useEffect(() => setEarlier(null), [path])
  const next = earlier ? earlier.next : (first?.next ?? null)
  const more = () => {
    ask<RunList>("GET", `${path}&after=${part(next ?? "")}`).then(
      (page) => setEarlier({ path, runs: [...(earlier?.runs ?? []), ...page.runs], next: page.next }),
      (error: unknown) => setFailed(said(error)),
    )
  }
  return { earlier: earlier?.runs ?? [], next, more, failed }
}
