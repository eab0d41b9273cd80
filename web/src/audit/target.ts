// Where the target of an audit entry is shown on the page. Pure.
import { maySeeTenant } from "../session/caller"
import { buildHref } from "../app/route"
import type { AuditEntryView, Me } from "../wire/types"

export interface TargetParts {
  /** Where the first part leads; empty if there is nothing to show, such as after a deletion, or nothing that the reader may see. */
  href: string
  /** The conversation, the server or the whole target. */
  text: string
  /** What follows it: the call, the share or the tools. */
  rest: string
}

const CONVERSATIONS = /^(?:call\.|share\.|prompt\.|original\.|message\.|conversation\.export)/
const SERVERS = /^(?:server\.(?!remove)|pin\.)/

type Entry = Pick<AuditEntryView, "action" | "target" | "tenant" | "actor" | "actor_tenant">

export function parseTarget(entry: Entry, me: Me): TargetParts {
  const { action, target } = entry
  if (CONVERSATIONS.test(action) && maySeeConversation(entry, me)) return split(target, target.indexOf("/"), "chat")
  if (SERVERS.test(action)) return split(target, target.indexOf(": "), "servers")
  return { href: "", text: target, rest: "" }
}

/** Return whether the reader may open the conversation of an entry. The role admin alone opens nobody else's. */
function maySeeConversation({ action, tenant, actor, actor_tenant }: Entry, me: Me): boolean {
  if (tenant !== me.tenant) return false
  // Whoever decides a call may be named as its approver and not see the conversation. All else takes seeing it.
  return maySeeTenant(me) || (actor === me.user && actor_tenant === me.tenant && !action.startsWith("call."))
}

function split(target: string, at: number, page: "chat" | "servers"): TargetParts {
  const text = at < 0 ? target : target.slice(0, at)
  return { href: text ? buildHref(page, text) : "", text, rest: target.slice(text.length) }
}
