// Messages that were begun and not sent, kept in this browser for each user and conversation. Only texts of the composer are
// kept here, never keys. A draft that is sent is removed, and the oldest ones make room for new ones.
const PREFIX = "toolyard.draft."
const MAX_DRAFTS = 50
const MAX_DRAFT_CHARS = 20_000

interface Draft {
  at: number
  text: string
}

function keyOf(user: string, conversation: string): string {
  return `${PREFIX}${encodeURIComponent(user)}/${conversation}`
}

export function loadDraft(user: string, conversation: string): string {
  return parseDraft(localStorage.getItem(keyOf(user, conversation)))?.text ?? ""
}

/** Keep a text, or remove the draft if the text is empty. A text that is too long is not kept. */
export function saveDraft(user: string, conversation: string, text: string): void {
  const key = keyOf(user, conversation)
  if (!text.trim() || text.length > MAX_DRAFT_CHARS) {
    localStorage.removeItem(key)
    return
  }
  try {
    localStorage.setItem(key, JSON.stringify({ at: Date.now(), text }))
  } catch {
    return // the browser's storage is full: the text stays on the page, which is where it is needed
  }
  for (const oldest of listDraftKeys().slice(MAX_DRAFTS)) localStorage.removeItem(oldest)
}

/** Remove all drafts, of all users of this browser. */
export function clearDrafts(): void {
  for (const key of listDraftKeys()) localStorage.removeItem(key)
}

/** Return the keys of all drafts, the newest first. */
function listDraftKeys(): string[] {
  const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX))
  const times = new Map(keys.map((key) => [key, parseDraft(localStorage.getItem(key))?.at ?? 0]))
  return keys.sort((first, second) => times.get(second)! - times.get(first)!)
}

function parseDraft(json: string | null): Draft | null {
  try {
    return json ? (JSON.parse(json) as Draft) : null
  } catch {
    return null
  }
}
