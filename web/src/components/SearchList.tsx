// A field with a list below it: typing narrows the list, the arrow keys move in it, and Enter picks. Home and End go to its
// ends while the field is empty; otherwise they belong to the text.
import { useEffect, useId, useRef, useState, type KeyboardEvent } from "react"

export interface SearchOption {
  id: string
  label: string
  /** The heading above the option; options of one group follow each other. */
  group?: string
  detail?: string
  /** The option that is in use now. */
  current?: boolean
  disabled?: boolean
}

interface SearchListProps {
  label: string
  query: string
  onQuery: (query: string) => void
  options: SearchOption[]
  onPick: (id: string) => void
  /** Shown while no option matches. */
  empty: string
}

/** How far Page Up and Page Down move. */
const PAGE_OPTIONS = 10

export function SearchList({ label, query, onQuery, options, onPick, empty }: SearchListProps) {
  const id = useId()
  const list = useRef<HTMLDivElement>(null)
  const [active, setActive] = useState(0)
  useEffect(() => setActive(Math.max(0, query ? 0 : options.findIndex((option) => option.current))), [query, options.length === 0])
  useEffect(() => {
    void list.current?.querySelector("[data-active]")?.scrollIntoView({ block: "nearest" }) // newer browsers return a promise
  }, [active])
  const at = Math.min(active, options.length - 1)
  const pick = (option: SearchOption | undefined) => option && !option.disabled && onPick(option.id)
  const onKey = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing || !options.length) return
    const last = options.length - 1
    if (event.key === "ArrowDown") setActive(at === last ? 0 : at + 1)
    else if (event.key === "ArrowUp") setActive(at === 0 ? last : at - 1)
    else if (event.key === "PageDown") setActive(Math.min(at + PAGE_OPTIONS, last))
    else if (event.key === "PageUp") setActive(Math.max(at - PAGE_OPTIONS, 0))
    else if (event.key === "Home" && !query) setActive(0)
    else if (event.key === "End" && !query) setActive(last)
    else if (event.key === "Enter") pick(options[at])
    else return
    event.preventDefault()
  }
  return (
    <div className="search-list">
      <input
        type="text"
        role="combobox"
        aria-label={label}
        placeholder={label}
        aria-expanded={options.length > 0}
        aria-controls={`${id}-list`}
        aria-activedescendant={options.length ? `${id}-${at}` : undefined}
        autoComplete="off"
        spellCheck={false}
        autoFocus
        value={query}
        onChange={(event) => onQuery(event.target.value)}
        onKeyDown={onKey}
      />
      <div ref={list} id={`${id}-list`} className="search-options" role="listbox" aria-label={label}>
        {groupOptions(options).map(({ group, first, members }) => (
          <ul key={first} {...(group ? { role: "group", "aria-label": group } : { role: "presentation" })}>
            {group && (
              <li className="search-group" role="presentation" aria-hidden>
                {group}
              </li>
            )}
            {members.map((option, offset) => (
              <OptionItem key={option.id} id={`${id}-${first + offset}`} option={option} active={first + offset === at} onPick={() => pick(option)} onPoint={() => setActive(first + offset)} />
            ))}
          </ul>
        ))}
      </div>
      {options.length === 0 && (
        <p className="empty" role="status">
          {empty}
        </p>
      )}
    </div>
  )
}

function OptionItem({ id, option, active, onPick, onPoint }: { id: string; option: SearchOption; active: boolean; onPick: () => void; onPoint: () => void }) {
  return (
    <li id={id} role="option" aria-selected={option.current ?? false} aria-disabled={option.disabled || undefined} data-active={active || undefined} onClick={onPick} onPointerMove={onPoint}>
      <span className="search-option">
        <span>{option.label}</span>
        {option.detail && <small>{option.detail}</small>}
      </span>
    </li>
  )
}

/** Return the options by their groups, each with the position of its first option in the whole list. */
function groupOptions(options: SearchOption[]): { group: string; first: number; members: SearchOption[] }[] {
  const groups: { group: string; first: number; members: SearchOption[] }[] = []
  for (const [index, option] of options.entries()) {
    const group = option.group ?? ""
    const previous = groups.at(-1)
    if (previous?.group === group) previous.members.push(option)
    else groups.push({ group, first: index, members: [option] })
  }
  return groups
}

/** Return whether every word of the query is in the text, ignoring case. */
export function matchesQuery(text: string, query: string): boolean {
  const lower = text.toLowerCase()
  return query.toLowerCase().split(/\s+/).every((word) => lower.includes(word))
}
