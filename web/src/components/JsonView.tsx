import { useMemo } from "react"
import { Copy } from "./CopyButton"

/** A value as it is. */
export function Json({ value }: { value: unknown }) {
  const text = useMemo(() => (typeof value === "string" ? value : JSON.stringify(value, null, 2)), [value])
  return (
    <div className="json">
      <Copy text={text} />
      <pre tabIndex={0}>{text}</pre>
    </div>
  )
}
