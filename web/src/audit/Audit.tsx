// The audit log, for administrators: who changed, decided, shared, exported or deleted what, the newest first.
import { Download, ShieldCheck } from "lucide-react"
import { useMemo, useState } from "react"
import { SectionLinks } from "../administration/SectionLinks"
import { isAdmin, isServerAdmin, useMe } from "../session/caller"
import { SelectFilter, TextFilter } from "../components/Filters"
import { downloadText } from "../components/download"
import { ProblemText } from "../components/ProblemText"
import { formatCount, formatDateTime, formatShortDateTime } from "../app/format"
import { useLanguage, useTranslate } from "../locales"
import { requestJson } from "../wire/http"
import { AUDIT_ACTIONS, type AuditEntryView, type AuditPage, type AuditVerification } from "../wire/types"
import { usePages } from "../wire/usePages"
import { useProblem } from "../wire/useProblem"
import { parseTarget } from "./target"

const POLL_MS = 10_000
const MAX_DOWNLOAD_PAGE = 1000
const HOURS = ["1", "24", "168", "720"] as const
const OUTCOMES = ["allowed", "refused", "failed"] as const
const OUTCOME_CLASSES = { allowed: "", refused: "asking", failed: "bad" }
const COLUMNS = ["when", "action", "actor", "target", "outcome", "from", "number"] as const

export default function Audit() {
  const t = useTranslate()
  const me = useMe()
  return isAdmin(me) ? <AuditLog mayVerify={isServerAdmin(me)} /> : <p className="page empty">{t("audit.admins")}</p>
}

function AuditLog({ mayVerify }: { mayVerify: boolean }) {
  const t = useTranslate()
  const [filters, setFilters] = useState({ action: "", actor: "", outcome: "", hours: "" })
  const path = useMemo(() => buildPath(filters), [filters])
  const { pages, problem, loadMore } = usePages<AuditPage>(path, POLL_MS)
  const entries = pages?.flatMap((page) => page.entries)
  const setFilter = (name: keyof typeof filters) => (value: string) => setFilters({ ...filters, [name]: value })
  return (
    <div className="page">
      <header className="page-head">
        <h1>{t("audit.title")}</h1>
        {mayVerify && <Verify />}
        <DownloadButton path={path} />
      </header>
      <SectionLinks current="audit" />
      <div className="filters">
        <SelectFilter label={t("audit.action")} value={filters.action} onChange={setFilter("action")} options={AUDIT_ACTIONS} describe={String} />
        <TextFilter label={t("audit.actor")} value={filters.actor} onChange={setFilter("actor")} />
        <SelectFilter label={t("audit.outcome")} value={filters.outcome} onChange={setFilter("outcome")} options={OUTCOMES} describe={(outcome) => t(`audit.${outcome}`)} />
        <SelectFilter label={t("overview.hours")} value={filters.hours} onChange={setFilter("hours")} options={HOURS} describe={(hours) => t(`overview.${hours}`)} />
      </div>
      {problem && <p className="problem">{problem}</p>}
      {entries?.length === 0 && <p className="empty">{t("audit.none")}</p>}
      {entries && entries.length > 0 && <EntryTable entries={entries} />}
      {loadMore && (
        <button className="quiet" onClick={loadMore}>
          {t("audit.more")}
        </button>
      )}
    </div>
  )
}

function EntryTable({ entries }: { entries: AuditEntryView[] }) {
  const t = useTranslate()
  return (
    <div className="table-frame" tabIndex={0}>
      <table className="audit">
        <thead>
          <tr>
            {COLUMNS.map((name) => (
              <th key={name} scope="col" className={name === "number" ? "number" : undefined}>
                {t(name === "when" ? "traces.when" : `audit.${name}`)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {entries.map((entry) => (
            <EntryRow key={entry.number} entry={entry} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function EntryRow({ entry }: { entry: AuditEntryView }) {
  const t = useTranslate()
  const language = useLanguage()
  const { href, text, rest } = parseTarget(entry, useMe())
  const isByServer = !entry.actor && !entry.address
  return (
    <tr>
      <td title={formatDateTime(entry.at, language)}>{formatShortDateTime(entry.at, language)}</td>
      <td>
        <code>{entry.action}</code>
        {entry.count > 1 && <small> × {formatCount(entry.count, language)}</small>}
      </td>
      <td className="clip">{isByServer ? t("audit.server") : [entry.actor, entry.actor_tenant].filter(Boolean).join(" · ")}</td>
      <td className="clip" title={entry.target}>
        {href ? <a href={href}>{text}</a> : text}
        {rest}
      </td>
      <td>
        <span className={`pill ${OUTCOME_CLASSES[entry.outcome]}`}>{t(`audit.${entry.outcome}`)}</span>
        {entry.cause > 0 && <small> {t("audit.cause", { n: entry.cause })}</small>}
      </td>
      <td className="clip">{[entry.key, entry.address].filter(Boolean).join(" · ")}</td>
      <td className="number" title={entry.hash}>
        {entry.number}
      </td>
    </tr>
  )
}

/** A button that lets the server check the chain of hashes, and a line with what it has found. */
function Verify() {
  const t = useTranslate()
  const language = useLanguage()
  const [found, setFound] = useState<AuditVerification | "checking" | null>(null)
  const [problem, fail, clear] = useProblem()
  const verify = () => {
    clear()
    setFound("checking")
    requestJson<AuditVerification>("GET", "audit/verification").then(setFound, (error: unknown) => {
      setFound(null)
      fail(error)
    })
  }
  const isBroken = found !== null && found !== "checking" && !found.intact
  return (
    <>
      <small role="status" className="about">
        {found === "checking" && t("audit.verifying")}
        {found !== null && found !== "checking" && found.intact && t("audit.intact", { n: new Intl.NumberFormat(language).format(found.count) })}
      </small>
      {(problem || isBroken) && (
        <p className="problem" role="alert">
          {isBroken ? t("audit.broken", { problem: found.problem }) : problem}
        </p>
      )}
      <button onClick={verify} disabled={found === "checking"}>
        <ShieldCheck aria-hidden /> {t("audit.verify")}
      </button>
    </>
  )
}

/** Saves all entries that the filters select as JSON, one in each line. */
function DownloadButton({ path }: { path: string }) {
  const t = useTranslate()
  const [busy, setBusy] = useState(false)
  const [problem, fail, clear] = useProblem()
  const save = () => {
    clear()
    setBusy(true)
    loadAll(path)
      .then((entries) => downloadText("audit.jsonl", entries.map((entry) => `${JSON.stringify(entry)}\n`).join("")), fail)
      .finally(() => setBusy(false))
  }
  return (
    <>
      <ProblemText text={problem} />
      <button onClick={save} disabled={busy}>
        <Download aria-hidden /> {t("audit.download")}
      </button>
    </>
  )
}

async function loadAll(path: string): Promise<AuditEntryView[]> {
  const entries: AuditEntryView[] = []
  let after: string | null = ""
  while (after !== null) {
    const page: AuditPage = await requestJson<AuditPage>("GET", `${path}&limit=${MAX_DOWNLOAD_PAGE}&after=${after}`)
    entries.push(...page.entries)
    after = page.next
  }
  return entries
}

function buildPath({ hours, ...filters }: { action: string; actor: string; outcome: string; hours: string }): string {
  const since = hours ? String(Math.floor(Date.now() / 1000) - Number(hours) * 3600) : ""
  const query = Object.entries({ ...filters, since }).filter(([, value]) => value.trim())
  return `audit?${query.map(([name, value]) => `${name}=${encodeURIComponent(value.trim())}`).join("&")}`
}
