import { useState } from "react"
import { Select } from "../../components/Select"
import { Dialog } from "../../components/Dialog"
import { ProblemText } from "../../components/ProblemText"
import { useTranslate } from "../../locales"
import { useAdministrationText } from "../../locales/administration"
import { useMe } from "../../session/caller"
import { request } from "../../wire/http"
import type { KeyView, NewKeyAnswer } from "../../wire/types"
import { useProblem } from "../../wire/useProblem"
import { buildVersionHeaders, findNewer } from "../settings/requests"
import { staySignedIn } from "./staySignedIn"

const OVERLAPS_S = [0, 3600, 86400] as const

interface RotateKeyProps {
  keyView: KeyView
  onRotated: (answer: NewKeyAnswer) => void
  onOutdated: () => void
  onClose: () => void
}

/** Gives a key a new secret, and lets the old one be used for a while. */
export function RotateKey({ keyView, onRotated, onOutdated, onClose }: RotateKeyProps) {
  const t = useTranslate()
  const a = useAdministrationText()
  const { key: ownKey } = useMe()
  const [overlap, setOverlap] = useState(3600)
  const [problem, fail, clear] = useProblem()
  const rotate = () => {
    clear()
    const send = async () => (await request("POST", `keys/${encodeURIComponent(keyView.name)}/rotate`, { overlap_s: overlap }, { headers: buildVersionHeaders(keyView.version) })).json() as Promise<NewKeyAnswer>
    void (keyView.name === ownKey ? staySignedIn(send) : send()).then(onRotated, (error: unknown) => {
      if (findNewer(error) !== undefined) onOutdated()
      fail(error)
    })
  }
  return (
    <Dialog title={a("keys.rotateOf", { name: keyView.name })} onClose={onClose}>
      <p>{a("keys.rotateAbout")}</p>
      <div className="field">
        <label htmlFor="key-overlap">{a("keys.overlapChoice")}</label>
        <Select id="key-overlap" label={a("keys.overlapChoice")} value={String(overlap)} onChange={(seconds) => setOverlap(Number(seconds))} options={OVERLAPS_S.map((seconds) => ({ value: String(seconds), label: a(`keys.overlap.${seconds}`) }))} />
      </div>
      <ProblemText text={problem} />
      <footer>
        <button onClick={onClose}>{t("common.cancel")}</button>
        <button className="primary" onClick={rotate}>
          {a("keys.rotate")}
        </button>
      </footer>
    </Dialog>
  )
}
