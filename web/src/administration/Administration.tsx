// Everything that an administrator sets. A tenant's administrator sees the part that belongs to the tenant.
import { useAdministrationText } from "../locales/administration"
import { isAdmin, useMe } from "../session/caller"
import { Costs } from "./Costs"
import { Fixed } from "./Fixed"
import { Keys } from "./keys/Keys"
import { Models } from "./models/Models"
import { MoreSettings } from "./MoreSettings"
import { SECTIONS, SectionLinks, listSections, type Section } from "./SectionLinks"
import { McpServers } from "./servers/McpServers"
import { Start } from "./Start"
import { ToolRules } from "./ToolRules"
import "../style/administration.css"

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
  const sections = listSections(me)
  const current = SECTIONS.find((known) => known === name) ?? sections[0]!
  return (
    <div className="page administration">
      <header className="page-head">
        <h1>{a("title")}</h1>
      </header>
      <SectionLinks current={current} />
      {sections.includes(current) ? <CurrentSection section={current} adding={action === "add"} /> : <p className="empty">{a("serverAdmins")}</p>}
    </div>
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
    case "costs":
      return <Costs />
    case "more":
      return <MoreSettings />
    case "fixed":
      return <Fixed />
  }
}
