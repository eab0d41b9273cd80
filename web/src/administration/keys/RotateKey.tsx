import { useState } from "react"
import { Dialog } from "../../components/Dialog"
import { useTranslate } from "../../locales"
import { useAdministrationText } from "../../locales/administration"
import { requestJson } from "../../wire/http"
import type { KeyView, NewKeyAnswer } from "../../wire/types"
import { useProblem } from "../../wire/useProblem"

const OVERLAPS_S = [0, 3600, 86400] as const

/** Gives a key a new secret, and lets the old one be used for a while. */
export function RotateKey({ keyView, onRotated, onClose }: { keyView: KeyView; onRotated: (answer: NewKeyAnswer) => void; onClose: () => void }) {
  const t = useTranslate()
  const a = useAdministrationText()
  const [overlap, setOverlap] = useState(3600)
  const [problem, fail, clear] = useProblem()
  const rotate = () => {
    clear()
    requestJson<NewKeyAnswer>("POST", `keys/${encodeURIComponent(keyView.name)}/rotate`, { overlap_s: overlap }).then(onRotated, fail)
  }
  return (
    <Dialog title={a("keys.rotateOf", { name: keyView.name })} onClose={onClose}>
      <p>{a("keys.rotateAbout")}</p>
      <div className="field">
        <label htmlFor="key-overlap">{a("keys.overlapChoice")}</label>
        <select id="key-overlap" value={overlap} onChange={(event) => setOverlap(Number(event.target.value))}>
          {OVERLAPS_S.map((seconds) => (
            <option key={seconds} value={seconds}>
              {a(`keys.overlap.${seconds}`)}
            </option>
          ))}
        </select>
      </div>
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      <footer>
        <button onClick={onClose}>{t("common.cancel")}</button>
        <button className="primary" onClick={rotate}>
          {a("keys.rotate")}
        </button>
      </footer>
    </Dialog>
  )
}
