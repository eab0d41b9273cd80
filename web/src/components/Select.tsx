// A choice of one of several options: a button that shows the choice, and a list that opens above everything else.
import { ChevronsUpDown } from "lucide-react"
import { useEffect, useId, useRef, useState, type CSSProperties, type KeyboardEvent, type ToggleEvent } from "react"

export interface SelectOption<T extends string> {
  value: T
  label: string
}

interface SelectProps<T extends string> {
  /** Its name for screen readers, and for the message that a required choice is missing. */
  label: string
  value: T
  options: readonly SelectOption<T>[]
  onChange: (value: T) => void
  id?: string
  required?: boolean | undefined
  "aria-describedby"?: string | undefined
  "aria-invalid"?: boolean | undefined
}

/** How far Page Up and Page Down move. */
const PAGE_OPTIONS = 10
const MIN_HEIGHT_PX = 240
const MAX_HEIGHT_PX = 400
const GAP_PX = 4
/** After such a pause typing begins a new word. */
const TYPING_MS = 700

export function Select<T extends string>({ label, value, options, onChange, id, required, ...described }: SelectProps<T>) {
  const listId = useId()
  const button = useRef<HTMLButtonElement>(null)
  const list = useRef<HTMLUListElement>(null)
  const [open, setOpen] = useState(false)
  const [active, setActive] = useState(0)
  const [place, setPlace] = useState<CSSProperties>({})
  const typed = useRef({ text: "", at: 0 })
  const chosen = options.findIndex((option) => option.value === value)
  const at = Math.min(active, options.length - 1)
  useEffect(() => {
    if (open) void list.current?.querySelector("[data-active]")?.scrollIntoView({ block: "nearest" })
  }, [open, at])
  useEffect(() => {
    if (!open) return
    // The list is above everything else, so it does not move with the button by itself.
    const follow = (event: Event) => event.target !== list.current && button.current && setPlace(findPlace(button.current.getBoundingClientRect()))
    addEventListener("scroll", follow, true)
    addEventListener("resize", follow)
    return () => {
      removeEventListener("scroll", follow, true)
      removeEventListener("resize", follow)
    }
  }, [open])
  const onToggle = (event: ToggleEvent) => {
    const opens = event.newState === "open"
    if (opens && button.current) {
      setPlace(findPlace(button.current.getBoundingClientRect()))
      setActive(Math.max(0, chosen))
    }
    setOpen(opens)
  }
  const pick = (option: SelectOption<T> | undefined) => {
    list.current?.hidePopover()
    button.current?.focus()
    if (option && option.value !== value) onChange(option.value)
  }
  const findTyped = (letter: string) => {
    const now = Date.now()
    const text = now - typed.current.at > TYPING_MS ? letter : typed.current.text + letter
    typed.current = { text, at: now }
    // The same letter again goes on to the next option that begins with it.
    const query = [...text].every((other) => other === letter) ? letter : text
    const from = query.length > 1 ? at : at + 1
    const order = options.map((_, index) => (from + index) % options.length)
    return order.find((index) => options[index]!.label.toLowerCase().startsWith(query.toLowerCase()))
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !options.length) return
    const last = options.length - 1
    const moves: Record<string, number> = { ArrowDown: Math.min(at + 1, last), ArrowUp: Math.max(at - 1, 0), PageDown: Math.min(at + PAGE_OPTIONS, last), PageUp: Math.max(at - PAGE_OPTIONS, 0), Home: 0, End: last }
    if (open && (event.key === "Enter" || event.key === " ")) pick(options[at])
    else if (event.key.length === 1 && event.key !== " ") {
      if (!open) list.current?.showPopover()
      const found = findTyped(event.key)
      if (found !== undefined) setActive(found)
    } else if (event.key in moves) {
      if (open) setActive(moves[event.key]!)
      else list.current?.showPopover()
    } else return
    event.preventDefault()
  }
  return (
    <span className="select">
      <button
        ref={button}
        type="button"
        role="combobox"
        id={id}
        aria-label={label}
        aria-haspopup="listbox"
        aria-expanded={open}
        aria-controls={listId}
        aria-activedescendant={open && options.length ? `${listId}-${at}` : undefined}
        aria-required={required || undefined}
        popoverTarget={listId}
        {...described}
        onKeyDown={onKey}
        onKeyUp={(event) => event.key === " " && open && event.preventDefault()}
        onBlur={() => list.current?.hidePopover()}
      >
        <span>{options[chosen]?.label ?? value}</span>
        <ChevronsUpDown aria-hidden />
      </button>
      {/* So that the browser asks for a choice that is missing when its form is sent. */}
      {required && <input className="select-required" tabIndex={-1} aria-hidden required value={value} onChange={() => {}} onFocus={() => button.current?.focus()} />}
      <ul ref={list} id={listId} className="select-options" popover="auto" role="listbox" aria-label={open ? label : undefined} style={place} onBeforeToggle={onToggle} onMouseDown={(event) => event.preventDefault()}>
        {open &&
          options.map((option, index) => (
            <li
              key={option.value}
              id={`${listId}-${index}`}
              role="option"
              aria-selected={index === chosen}
              data-active={index === at || undefined}
              onPointerMove={() => setActive(index)}
              onClick={(event) => {
                event.preventDefault() // a label around it would press the button again
                pick(option)
              }}
            >
              {option.label || "–"}
            </li>
          ))}
      </ul>
    </span>
  )
}

/** Return where the list opens: below the button, or above it where there is more room. */
function findPlace({ left, top, bottom, width }: DOMRect): CSSProperties {
  const below = innerHeight - bottom - 2 * GAP_PX
  const isBelow = below >= MIN_HEIGHT_PX || below >= top
  const common = { left: Math.max(GAP_PX, Math.min(left, innerWidth - width - GAP_PX)), minWidth: width, maxWidth: innerWidth - 2 * GAP_PX }
  return isBelow ? { ...common, top: bottom + GAP_PX, bottom: "auto", maxHeight: Math.min(below, MAX_HEIGHT_PX) } : { ...common, top: "auto", bottom: innerHeight - top + GAP_PX, maxHeight: Math.min(top - 2 * GAP_PX, MAX_HEIGHT_PX) }
}
