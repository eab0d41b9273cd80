// Everything that an administrator sets. A tenant's administrator sees the part that belongs to the tenant.
import { buildHref } from "../app/route"
import { useAdministrationText } from "../locales/administration"
import { isAdmin, isServerAdmin, useMe } from "../session/caller"
import type { SettingList } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { Fixed } from "./Fixed"
import { Keys } from "./keys/Keys"
import { Models } from "./models/Models"
import { MoreSettings, hasMoreSettings } from "./MoreSettings"
import { McpServers } from "./servers/McpServers"
import { Start } from "./Start"
import { TOOL, ToolRules } from "./ToolRules"
import "../style/administration.css"

const SECTIONS = ["start", "models", "servers", "tools", "keys", "more", "fixed"] as const
type Section = (typeof SECTIONS)[number]

/** `section` is the name of a section; `/add` after it shows the form for a new entry. */
export default function Administration({ section }: { section: string }) {
  const a = useAdministrationText()
  const me = useMe()
  if (!isAdmin(me))
    return (
      <div className="page">
        <h1>{a("title")}</h1>
        <p className="empty">{a("admins")}</p>
      </div>
    )
  const [name, action] = section.split("/")
  const sections: readonly Section[] = isServerAdmin(me) ? SECTIONS : ["keys"]
  const current = SECTIONS.find((known) => known === name) ?? sections[0]!
  return (
    <div className="page administration">
      <header className="page-head">
        <h1>{a("title")}</h1>
      </header>
      <SectionLinks sections={sections} current={current} />
      {sections.includes(current) ? <CurrentSection section={current} adding={action === "add"} /> : <p className="empty">{a("serverAdmins")}</p>}
    </div>
  )
}

function SectionLinks({ sections, current }: { sections: readonly Section[]; current: Section }) {
  const a = useAdministrationText()
  const settings = useQuery<SettingList>(sections.includes("more") ? "settings" : null) // not for a tenant's administrator
  // What the server lets nobody change while it runs has no section.
  const isShown = (section: Section) => (section === "tools" ? settings.data?.forms.some(({ kind }) => kind === TOOL) : section === "more" ? settings.data && hasMoreSettings(settings.data) : true)
  return (
    <nav className="sections" aria-label={a("sections")}>
      {sections.filter(isShown).map((section) => (
        <a key={section} href={buildHref("administration", section)} aria-current={section === current ? "page" : undefined}>
          {a(`section.${section}`)}
        </a>
      ))}
      <a href={buildHref("audit")}>{a("section.audit")}</a>
    </nav>
  )
}

function CurrentSection({ section, adding }: { section: Section; adding: boolean }) {
  switch (section) {
    case "start":
      return <Start />
    case "models":
      return <Models adding={adding} />
    case "servers":
      return <McpServers adding={adding} />
    case "keys":
      return <Keys adding={adding} />
    case "tools":
      return <ToolRules />
    case "more":
      return <MoreSettings />
    case "fixed":
      return <Fixed />
  }
}
