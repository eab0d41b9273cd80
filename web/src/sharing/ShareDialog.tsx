// Export a conversation as a file, and share it by read-only links.
import { Download, Printer } from "lucide-react"
import { useState, type FormEvent } from "react"
import { Select } from "../components/Select"
import { CopyButton } from "../components/CopyButton"
import { Dialog } from "../components/Dialog"
import { ProblemText } from "../components/ProblemText"
import { formatDateTime } from "../app/format"
import { buildHref } from "../app/route"
import { requestJson, resolveUrl } from "../wire/http"
import { useProblem } from "../wire/useProblem"
import type { NewShareAnswer, ShareList, ShareView } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { useLanguage, useTranslate } from "../locales"

const DAY_S = 24 * 3600
const LIFETIMES = [1, 7, 30] as const

export function ShareDialog({ conversation, mine, onClose }: { conversation: string; mine: boolean; onClose: () => void }) {
  const t = useTranslate()
  const path = `conversations/${encodeURIComponent(conversation)}`
  const print = () => {
    onClose()
    setTimeout(() => window.print()) // once the dialog is gone, which would be printed
  }
  return (
    <Dialog title={t("share.title")} onClose={onClose}>
      <section className="export" aria-label={t("share.export")}>
        <h3>{t("share.export")}</h3>
        {(["markdown", "json"] as const).map((format) => (
          <a key={format} className="button" download href={resolveUrl(`${path}/export?format=${format}`).href}>
            <Download aria-hidden /> {t(`share.${format}`)}
          </a>
        ))}
        <button type="button" onClick={print}>
          <Printer aria-hidden /> {t("share.print")}
        </button>
      </section>
      {mine && <Links path={`${path}/shares`} />}
    </Dialog>
  )
}

/** Makes links to the conversation, lists those that work, and revokes them. */
function Links({ path }: { path: string }) {
  const t = useTranslate()
  const list = useQuery<ShareList>(path)
  const [days, setDays] = useState<number>(7)
  const [withArguments, setArguments] = useState(false)
  const [withReasoning, setReasoning] = useState(false)
  const [link, setLink] = useState("")
  const [problem, fail, clear] = useProblem()
  const change = async (work: () => Promise<void>) => {
    try {
      await work()
      clear()
    } catch (error) {
      fail(error)
    }
    list.refetch()
  }
  const create = (event: FormEvent) => {
    event.preventDefault()
    void change(async () => {
      const options = { expires_s: days * DAY_S, include_arguments: withArguments, include_reasoning: withReasoning }
      const { token } = await requestJson<NewShareAnswer>("POST", path, options)
      setLink(resolveUrl(buildHref("shared", token)).href)
    })
  }
  const revoke = (share: ShareView) => change(async () => void (await requestJson("DELETE", `${path}/${encodeURIComponent(share.id)}`)))
  return (
    <section className="share" aria-label={t("share.link")}>
      <h3>{t("share.link")}</h3>
      <p>{t("share.about")}</p>
      <form onSubmit={create} className="share-options">
        <label>
          <input type="checkbox" checked={withArguments} onChange={(event) => setArguments(event.target.checked)} /> {t("share.arguments")}
        </label>
        <label>
          <input type="checkbox" checked={withReasoning} onChange={(event) => setReasoning(event.target.checked)} /> {t("share.reasoning")}
        </label>
        <label>
          {t("share.expires")}{" "}
          <Select label={t("share.expires")} value={String(days)} onChange={(lifetime) => setDays(Number(lifetime))} options={LIFETIMES.map((lifetime) => ({ value: String(lifetime), label: t(`share.days.${lifetime}`) }))} />
        </label>
        <button className="primary">{t("share.create")}</button>
      </form>
      <ProblemText text={problem} />
      {link && (
        <div className="new-link" role="status">
          <p>{t("share.created")}</p>
          <code>{link}</code>
          <CopyButton text={link} label={t("share.copy")} />
        </div>
      )}
      <LinkList shares={list.data?.shares ?? []} revoke={revoke} />
    </section>
  )
}

function LinkList({ shares, revoke }: { shares: ShareView[]; revoke: (share: ShareView) => void }) {
  const t = useTranslate()
  const language = useLanguage()
  return (
    <>
      <h3>{t("share.links")}</h3>
      {shares.length === 0 && <p>{t("share.none")}</p>}
      <ul className="links">
        {shares.map((share) => {
          const when = formatDateTime(Date.parse(share.created_at) / 1000, language)
          return (
            <li key={share.id}>
              <span>
                {when} · {t("share.until", { when: formatDateTime(Date.parse(share.expires_at) / 1000, language) })}
              </span>
              <button type="button" aria-label={t("share.revokeOf", { when })} onClick={() => revoke(share)}>
                {t("share.revoke")}
              </button>
            </li>
          )
        })}
      </ul>
    </>
  )
}
