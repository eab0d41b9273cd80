// What can be done from where the user is: components offer commands while they are shown. The palette lists them, those
// with keys run by their keys, and the list of shortcuts shows these keys.
import { useEffect, useRef } from "react"

export interface Keys {
  /** As in `KeyboardEvent.key`, in lower case. */
  key: string
  ctrl?: boolean
  shift?: boolean
  alt?: boolean
}

export interface Command {
  id: string
  label: string
  run: () => void
  keys?: Keys
}

const offers = new Set<{ current: Command[] }>()

/** Offer commands while the component is shown. */
export function useCommands(commands: Command[]): void {
  const offer = useRef(commands)
  offer.current = commands
  useEffect(() => {
    offers.add(offer)
    return () => void offers.delete(offer)
  }, [])
}

export function listCommands(): Command[] {
  return [...offers].flatMap((offer) => offer.current)
}

export function runCommand(id: string): void {
  listCommands().find((command) => command.id === id)?.run()
}

/** Run commands by their keys while the component is shown. An open dialog has keys of its own. */
export function useCommandKeys(): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing) return
      const command = listCommands().find(({ keys }) => keys && isPressed(keys, event))
      if (!command) return
      event.preventDefault() // in a dialog too: a browser has meanings of its own for most of these keys
      if (!document.querySelector("dialog[open]")) command.run()
    }
    addEventListener("keydown", onKey)
    return () => removeEventListener("keydown", onKey)
  }, [])
}

function isPressed(keys: Keys, event: KeyboardEvent): boolean {
  // A sign such as ? needs Shift on some keyboards and not on others; without a modifier it is text where one writes.
  const isSign = !keys.ctrl && !keys.alt
  if (isSign && isWriting(event.target)) return false
  const hasModifiers = (event.ctrlKey || event.metaKey) === (keys.ctrl ?? false) && event.altKey === (keys.alt ?? false) && (isSign || event.shiftKey === (keys.shift ?? false))
  return hasModifiers && event.key.toLowerCase() === keys.key
}

function isWriting(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null
}

const KEY_NAMES: Record<string, string> = { arrowup: "↑", arrowdown: "↓", escape: "Esc", enter: "Enter" }

/** Return the keys as people name them, such as `Ctrl Shift O`. */
export function describeKeys({ key, ctrl, shift, alt }: Keys): string[] {
  const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent)
  return [...(ctrl ? [isMac ? "⌘" : "Ctrl"] : []), ...(alt ? [isMac ? "⌥" : "Alt"] : []), ...(shift ? [isMac ? "⇧" : "Shift"] : []), KEY_NAMES[key] ?? key.toUpperCase()]
}
