// Who approved or denied which call, newest first. They are requested when somebody asks for them.
import { useState } from "react"
import { formatShortDateTime } from "../app/format"
import { buildHref } from "../app/route"
import { nameTool } from "../components/humanize"
import { useLanguage, useTranslate } from "../locales"
import type { DecisionPage, DecisionView } from "../wire/types"
import { usePages } from "../wire/usePages"

const PAGE_SIZE = 20
/** Rarely: the server reads the logs of the conversations for it. */
const POLL_MS = 30_000

export function DecisionHistory() {
  const t = useTranslate()
  const [open, setOpen] = useState(false)
  return (
    <details className="decisions" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{t("inbox.history")}</summary>
      {open && <DecisionList />}
    </details>
  )
}

function DecisionList() {
  const t = useTranslate()
  const { pages, problem, loadMore } = usePages<DecisionPage>(`decisions?limit=${PAGE_SIZE}`, POLL_MS)
  const decisions = pages?.flatMap((page) => page.decisions)
  return (
    <>
      {problem && <p className="problem">{problem}</p>}
      {decisions?.length === 0 && !loadMore && <p className="empty">{t("inbox.noHistory")}</p>}
      <ul>
        {decisions?.map((decision, index) => (
          <DecisionItem key={`${decision.call_id}/${decision.by}/${index}`} decision={decision} />
        ))}
      </ul>
      {loadMore && (
        <button className="quiet" onClick={loadMore}>
          {t("inbox.moreHistory")}
        </button>
      )}
    </>
  )
}

function DecisionItem({ decision }: { decision: DecisionView }) {
  const t = useTranslate()
  const language = useLanguage()
  const { tool, tool_title, approved, edited, by, at, reason, conversation, title } = decision
  return (
    <li>
      <span className={approved ? "pill ok" : "pill bad"}>{t(approved ? "call.approved" : "call.denied")}</span>
      <strong title={tool}>{nameTool(tool, tool_title)}</strong>
      <span>
        {by} · {formatShortDateTime(at, language)}
        {edited ? ` · ${t("inbox.edited")}` : ""}
        {reason ? ` · ${reason}` : ""}
      </span>
      {conversation && <a href={buildHref("chat", conversation)}>{title || t("list.untitled")}</a>}
    </li>
  )
}
