// Where the target of an audit entry is shown on the page. Pure.
import { buildHref } from "../route"
import type { AuditEntry } from "../wire/types"

export interface TargetParts {
  /** Where the first part leads; empty if there is nothing to show, such as after a deletion. */
  href: string
  /** The conversation, the server or the whole target. */
  text: string
  /** What follows it: the call, the share or the tools. */
  rest: string
}

const CONVERSATIONS = /^(?:call\.|share\.|prompt\.|conversation\.export)/
const SERVERS = /^(?:server\.(?!remove)|pin\.)/

export function parseTarget({ action, target }: Pick<AuditEntry, "action" | "target">): TargetParts {
  if (CONVERSATIONS.test(action)) return split(target, target.indexOf("/"), "chat")
  if (SERVERS.test(action)) return split(target, target.indexOf(": "), "servers")
  return { href: "", text: target, rest: "" }
}

function split(target: string, at: number, page: "chat" | "servers"): TargetParts {
  const text = at < 0 ? target : target.slice(0, at)
  return { href: text ? buildHref(page, text) : "", text, rest: target.slice(text.length) }
}
