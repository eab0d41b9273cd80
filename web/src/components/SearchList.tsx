// A field with a list below it: typing narrows the list, the arrow keys move in it, and Enter picks.
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

export function SearchList({ label, query, onQuery, options, onPick, empty }: SearchListProps) {
  const id = useId()
  const list = useRef<HTMLUListElement>(null)
  const [active, setActive] = useState(0)
  useEffect(() => setActive(Math.max(0, query ? 0 : options.findIndex((option) => option.current))), [query, options.length === 0])
  useEffect(() => {
    void list.current?.querySelector("[data-active]")?.scrollIntoView({ block: "nearest" }) // newer browsers return a promise
  }, [active])
  const at = Math.min(active, options.length - 1)
  const pick = (option: SearchOption | undefined) => option && !option.disabled && onPick(option.id)
  const onKey = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return
    if (event.key === "ArrowDown") setActive((at + 1) % Math.max(1, options.length))
    else if (event.key === "ArrowUp") setActive((at - 1 + options.length) % Math.max(1, options.length))
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
      <ul ref={list} id={`${id}-list`} role="listbox" aria-label={label}>
        {options.map((option, index) => (
          <li key={option.id} id={`${id}-${index}`} role="option" aria-selected={option.current ?? false} aria-disabled={option.disabled || undefined} data-active={index === at || undefined} onClick={() => pick(option)} onPointerMove={() => setActive(index)}>
            {option.group && option.group !== options[index - 1]?.group && <span className="search-group">{option.group}</span>}
            <span className="search-option">
              <span>{option.label}</span>
              {option.detail && <small>{option.detail}</small>}
            </span>
          </li>
        ))}
      </ul>
      {options.length === 0 && (
        <p className="empty" role="status">
          {empty}
        </p>
      )}
    </div>
  )
}

/** Return whether every word of the query is in the text, ignoring case. */
export function matchesQuery(text: string, query: string): boolean {
  const lower = text.toLowerCase()
  return query.toLowerCase().split(/\s+/).every((word) => lower.includes(word))
}
