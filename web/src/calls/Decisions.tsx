import { useTranslate } from "../locales"
import type { ApprovalRecord } from "../wire/types"

/** Who approved or denied a call, and why. */
export function Decisions({ decisions = [] }: { decisions?: ApprovalRecord[] | undefined }) {
  const t = useTranslate()
  return decisions.map(({ by, approved, reason }, index) => (
    <p key={index} className="hint">
      {t("call.decidedBy", { by, decision: t(approved ? "call.approved" : "call.denied") })}
      {reason ? `: ${reason}` : ""}
    </p>
  ))
}
