/** Why something failed, read aloud when it appears. Nothing while there is no problem. */
export function ProblemText({ text }: { text: string }) {
  return (
    text && (
      <p className="problem" role="alert">
        {text}
      </p>
    )
  )
}
