import { useMemo } from "react"
import { CopyButton } from "./CopyButton"

/** A value as indented JSON; a string as it is. */
export function JsonView({ value }: { value: unknown }) {
  const text = useMemo(() => (typeof value === "string" ? value : JSON.stringify(value, null, 2)), [value])
  return (
    <div className="json">
      <CopyButton text={text} />
      <pre tabIndex={0}>{text}</pre>
    </div>
  )
}
