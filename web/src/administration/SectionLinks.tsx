// The links between the sections of the administration, which stand above each of them and above the audit log.
import { buildHref } from "../app/route"
import { useAdministrationText } from "../locales/administration"
import { isServerAdmin, useMe } from "../session/caller"
import type { SettingList } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { COST_KINDS } from "./Costs"
import { hasMoreSettings } from "./MoreSettings"
import { TOOL } from "./ToolRules"
import "../style/administration.css"

export const SECTIONS = ["start", "models", "servers", "tools", "costs", "keys", "more", "fixed"] as const
export type Section = (typeof SECTIONS)[number]

/** Return the sections that an administrator sees: one of a tenant manages its keys, and its words. */
export function listSections(me: Parameters<typeof isServerAdmin>[0]): readonly Section[] {
  return isServerAdmin(me) ? SECTIONS : ["keys", "more"]
}

export function SectionLinks({ current }: { current: Section | "audit" }) {
  const a = useAdministrationText()
  const me = useMe()
  const sections = listSections(me)
  const settings = useQuery<SettingList>("settings")
  // What the server lets nobody change while it runs has no section.
  const hasForm = (kinds: string[]) => settings.data?.forms.some(({ kind }) => kinds.includes(kind))
  const isShown = (section: Section) => (section === "tools" ? hasForm([TOOL]) : section === "costs" ? hasForm(COST_KINDS) : section === "more" ? settings.data && hasMoreSettings(settings.data, isServerAdmin(me)) : true)
  return (
    <nav className="sections" aria-label={a("sections")}>
      {sections.filter(isShown).map((section) => (
        <a key={section} href={buildHref("administration", section)} aria-current={section === current ? "page" : undefined}>
          {a(`section.${section}`)}
        </a>
      ))}
      <a href={buildHref("audit")} aria-current={current === "audit" ? "page" : undefined}>
        {a("section.audit")}
      </a>
    </nav>
  )
}
