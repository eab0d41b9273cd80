import { useSay } from "../locales"

export function Thinking() {
  const say = useSay()
  return (
    <p className="thinking">
      <span aria-hidden />
      <span aria-hidden />
      <span aria-hidden />
      <span className="unseen">{say("chat.thinking")}</span>
    </p>
  )
}
