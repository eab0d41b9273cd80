const STATES = {
  "input-streaming": "is prepared",
  "input-available": "runs",
  "approval-requested": "needs your approval",
  "approval-responded": "answered",
  "output-available": "done",
  "output-error": "failed",
  "output-denied": "denied",
}

// A call with its arguments and, once it is done, its result. `children` are what the user can do about it.
export function ToolCard({ name, state, input, output, children }) {
  return (
    <div className={`tool ${state}`} role="group" aria-label={name}>
      <strong>{name}</strong> <span className="note">{STATES[state]}</span>
      {input !== undefined && <code>{JSON.stringify(input)}</code>}
      {output !== undefined && (
        <details>
          <summary>Result</summary>
          <pre>{typeof output === "string" ? output : JSON.stringify(output, null, 2)}</pre>
        </details>
      )}
      {children}
    </div>
  )
}
