// A conversation that somebody of the tenant has shared: a snapshot, to be read only.
import { Markdown } from "../components/markdown/Markdown"
import { formatDateTime } from "../app/format"
import type { SharedConversation, TranscriptCall, TranscriptMessage } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { useLanguage, useTranslate } from "../locales"
import { nameTool } from "../components/humanize"
import { Decisions } from "../calls/Decisions"
import { getProgramText } from "../calls/programs/programs"
import { ProgramText } from "../calls/programs/ProgramText"

export default function SharedPage({ token }: { token: string }) {
  const t = useTranslate()
  const language = useLanguage()
  const { data, problem } = useQuery<SharedConversation>(token ? `shares/${encodeURIComponent(token)}` : null)
  if (!data) return <p className="page shared">{problem || !token ? t("share.gone") : t("app.loading")}</p>
  const { share, transcript } = data
  return (
    <article className="page shared">
      <h1>{transcript.title || t("list.untitled")}</h1>
      <p className="shared-note">{t("share.snapshot", { user: share.user, when: formatDateTime(Date.parse(share.created_at) / 1000, language) })}</p>
      {transcript.messages.map((message) => (
        <SharedMessage key={message.id} message={message} />
      ))}
    </article>
  )
}

function SharedMessage({ message }: { message: TranscriptMessage }) {
  const t = useTranslate()
  const name = t(message.role === "user" ? "share.user" : "share.assistant")
  return (
    <section className="shared-message" role="group" data-role={message.role} aria-label={name}>
      <h2>{name}</h2>
      {message.reasoning && (
        <details>
          <summary>{t("share.thoughts")}</summary>
          <Markdown text={message.reasoning} />
        </details>
      )}
      {message.role === "user" ? <p className="plain-text">{message.text}</p> : <Markdown text={message.text} />}
      {message.attachments.map((name, index) => (
        <p key={index} className="pill">
          {name}
        </p>
      ))}
      {message.calls.map((call) => (
        <SharedCall key={call.id} call={call} />
      ))}
    </section>
  )
}

function SharedCall({ call }: { call: TranscriptCall }) {
  const t = useTranslate()
  const title = (
    <>
      <strong title={call.tool}>{nameTool(call.tool)}</strong> <span className="pill">{call.outcome ? t(`outcome.${call.outcome}`) : t("share.open")}</span>
    </>
  )
  if (call.arguments === null) return <p className="shared-call">{title}</p>
  const program = getProgramText(call)
  return (
    <details className="shared-call">
      <summary>{title}</summary>
      <Decisions decisions={call.decisions} />
      {program === null ? <pre tabIndex={0}>{JSON.stringify(call.arguments, null, 2)}</pre> : <ProgramText text={program} />}
      {call.result !== null && <pre tabIndex={0}>{call.result}</pre>}
    </details>
  )
}
