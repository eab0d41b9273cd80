import { useCallback, useEffect, useState } from "react"
import { buildHref } from "../app/route"
import { useTranslate } from "../locales"
import { useCommands } from "../state/commands"

/**
 * Return whether the search in a conversation is open, and a function that opens or closes it. It opens with Ctrl F, and with
 * an address that names a text. Where it is open already, Ctrl F is the browser's own.
 */
export function useFind(conversation: string, find: string): [boolean, (open: boolean) => void] {
  const t = useTranslate()
  const [open, setOpen] = useState(find !== "")
  useEffect(() => setOpen(find !== ""), [find])
  useCommands(open ? [] : [{ id: "find", label: t("find.title"), run: () => setOpen(true), keys: { key: "f", ctrl: true } }])
  const change = useCallback(
    (isOpen: boolean) => {
      setOpen(isOpen)
      if (!isOpen && find) location.replace(buildHref("chat", conversation)) // so that the same result can be opened again
    },
    [conversation, find],
  )
  return [open, change]
}
