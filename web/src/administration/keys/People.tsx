// The people who are signed in to the web page, and where their roles come from.
import { useId, useState } from "react"
import { formatRelative } from "../../app/format"
import { useLanguage } from "../../locales"
import { useAdministrationText } from "../../locales/administration"
import { requestJson } from "../../wire/http"
import type { PersonList, SignedInPerson } from "../../wire/types"
import { useQuery } from "../../wire/useQuery"
import { RemoveDialog } from "../settings/RemoveDialog"

const POLL_MS = 10_000

export function People() {
  const a = useAdministrationText()
  const heading = useId()
  const { data, refetch } = useQuery<PersonList>("people", POLL_MS)
  const [ending, setEnding] = useState<SignedInPerson | null>(null)
  const end = async ({ user, tenant }: SignedInPerson) => {
    await requestJson("DELETE", `people/sessions?user=${encodeURIComponent(user)}&tenant=${encodeURIComponent(tenant)}`)
    setEnding(null)
    refetch()
  }
  if (!data) return null
  return (
    <section aria-labelledby={heading}>
      <h2 id={heading}>{a("people.title")}</h2>
      <p className="about">{a("people.about")}</p>
      {data.count === 0 && <p className="empty">{a("people.none")}</p>}
      <ul className="cards">
        {data.people.map((person) => (
          <PersonCard key={`${person.tenant}/${person.user}/${person.source}/${person.key}`} person={person} onEnd={() => setEnding(person)} />
        ))}
      </ul>
      {ending && (
        <RemoveDialog title={a("people.endOf", { name: ending.user })} action={a("people.end")} remove={() => end(ending)} onClose={() => setEnding(null)}>
          <p>{a("people.endAbout", { name: ending.user })}</p>
        </RemoveDialog>
      )}
    </section>
  )
}

function PersonCard({ person, onEnd }: { person: SignedInPerson; onEnd: () => void }) {
  const a = useAdministrationText()
  const language = useLanguage()
  return (
    <li className="card">
      <header>
        <h3>{person.user}</h3>
        {person.tenant && <span>{person.tenant}</span>}
        {person.roles.map((role) => (
          <span className="pill" key={role}>
            {role}
          </span>
        ))}
        <span className="grow" />
        <button aria-label={`${a("people.end")}: ${person.user}`} onClick={onEnd}>
          {a("people.end")}
        </button>
      </header>
      <p className="facts">
        <span>{a("people.source", { source: a(`people.from.${person.source}`, { key: person.key }) })}</span>
        <span>{a("people.sessions", { n: person.sessions })}</span>
        <span>{a("keys.lastUsed", { when: formatRelative(person.last_used_at, Date.now() / 1000, language) })}</span>
      </p>
    </li>
  )
}
