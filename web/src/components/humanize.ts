// Names of tools and fields as people read them. Pure.

/** Return a machine name as words: `pay_invoice`, `payInvoice` and `bank__pay_invoice` are all "Pay invoice". */
export function humanize(name: string): string {
  const words = (name.split("__").at(-1) || name)
    .replace(/([\p{Ll}\d])(\p{Lu})/gu, "$1 $2")
    .replace(/[_.\-/]+/g, " ")
    .trim()
    .toLowerCase()
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** Return what people read in place of a tool's name: its title, else its name as words. */
export function nameTool(name: string, title = ""): string {
  return title || humanize(name)
}

/** Return the first sentence of a tool's description. */
export function getFirstSentence(description: string): string {
  const line = description.trim().split("\n\n")[0]!.replace(/\s+/g, " ")
  return /^.+?[.!?。！？](?=\s|$|[^\x00-\x7F])/u.exec(line)?.[0] ?? line
}
