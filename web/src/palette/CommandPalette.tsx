// The command palette (Ctrl K): runs a command, or goes to a page, a conversation, a tool, a server or a trace, by a part
// of its name.
import { useMemo, useState } from "react"
import { isAdmin, useMe } from "../session/caller"
import { Dialog } from "../components/Dialog"
import { SearchList, matchesQuery, type SearchOption } from "../components/SearchList"
import { formatShortDateTime } from "../app/format"
import { ROUTE_PAGES, navigate, type Route } from "../app/route"
import { nameTool } from "../components/humanize"
import { useTools } from "../state/tools"
import { describeKeys, listCommands } from "../state/commands"
import type { ConversationList, RunList, ServerList } from "../wire/types"
import { useQuery } from "../wire/useQuery"
import { useLanguage, useTranslate } from "../locales"

const MAX_PER_GROUP = 8
const MIN_TRACE_ID_CHARS = 8
const ADMIN_PAGES = new Set<Route["page"]>(["administration", "audit"])

interface Target extends SearchOption {
  page: Route["page"]
  target: string
}

export function CommandPalette({ onClose }: { onClose: () => void }) {
  const t = useTranslate()
  const [query, setQuery] = useState("")
  const targets = useTargets(query.trim())
  const [commands] = useState(() => listCommands().filter(({ id }) => id !== "palette"))
  const actions = commands.filter(({ label }) => matchesQuery(label, query.trim())).map(({ id, label, keys }) => ({ id, label, group: t("palette.actions"), detail: keys ? describeKeys(keys).join(" ") : "" }))
  const pick = (id: string) => {
    const found = targets.find((target) => target.id === id)
    onClose()
    if (found) navigate(found.page, found.target)
    else commands.find((command) => command.id === id)?.run()
  }
  return (
    <Dialog title={t("palette.title")} onClose={onClose}>
      <SearchList label={t("palette.search")} query={query} onQuery={setQuery} options={[...actions, ...targets]} onPick={pick} empty={t("list.notFound")} />
    </Dialog>
  )
}

function useTargets(query: string): Target[] {
  const t = useTranslate()
  const language = useLanguage()
  const tools = useTools()
  const admin = isAdmin(useMe())
  const conversations = useQuery<ConversationList>(query ? `conversations/search?q=${encodeURIComponent(query)}&limit=${MAX_PER_GROUP}` : `conversations?limit=${MAX_PER_GROUP}`).data
  const servers = useQuery<ServerList>("servers").data
  const traces = useQuery<RunList>(`traces?limit=${MAX_PER_GROUP}`).data
  return useMemo(() => {
    const matching = (list: Target[]) => list.filter((target) => matchesQuery(`${target.label} ${target.target}`, query)).slice(0, MAX_PER_GROUP)
    const toTarget = (page: Route["page"], target: string, label: string, group: string, detail = ""): Target => ({ id: `${page}/${target}`, page, target, label, group, detail })
    const pages = ROUTE_PAGES.filter((page) => page !== "shared" && (!ADMIN_PAGES.has(page) || admin)).map((page) => toTarget(page, "", t(`nav.${page}`), t("nav.label")))
    // The server has searched the messages too, so its result is not narrowed by the title.
    const found = (conversations?.conversations ?? []).map(({ id, title }) => toTarget("chat", id, title || t("list.untitled"), t("list.label")))
    const toolTargets = [...tools.values()].map((tool) => toTarget("tools", tool.name, nameTool(tool.name, tool.title), t("nav.tools"), tool.description.split("\n")[0]))
    const serverTargets = (servers?.servers ?? []).map(({ id, slug }) => toTarget("servers", id, slug || id, t("nav.servers")))
    const runs = (traces?.runs ?? []).map((run) => toTarget("traces", run.correlation_id, run.title || t("list.untitled"), t("nav.traces"), `${formatShortDateTime(run.queued_at, language)} · ${run.correlation_id}`))
    const byId = query.length >= MIN_TRACE_ID_CHARS && !/\s/.test(query) ? [toTarget("traces", query, t("palette.trace", { id: query }), t("nav.traces"))] : []
    const all = [...matching(pages), ...found, ...matching(toolTargets), ...matching(serverTargets), ...matching(runs), ...byId]
    return all.filter((target, index) => all.findIndex((other) => other.id === target.id) === index)
  }, [query, conversations, servers, traces, tools, t, language, admin])
}
