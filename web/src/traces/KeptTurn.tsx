import { useSay } from "../words"

/** The exact request and response of a model turn, where they are kept. */
export function KeptTurn(_: { conversation: string; run: string; turn: number }) {
  const say = useSay()
  return <small>{say("traces.notKept")}</small>
}
