import { useEffect, useState, type FormEvent } from "react"
import { ProblemText } from "../../components/ProblemText"
import { useTranslate } from "../../locales"
import { requestJson } from "../../wire/http"
import type { InstructionsAnswer } from "../../wire/types"
import { useProblem } from "../../wire/useProblem"
import { useQuery } from "../../wire/useQuery"

/** A text of the user's own for all their conversations, sent as the user's words. */
export function MyInstructions() {
  const t = useTranslate()
  const { data, problem: unread } = useQuery<InstructionsAnswer>("me/instructions")
  const [text, setText] = useState("")
  const [saved, setSaved] = useState(false)
  const [problem, fail, clear] = useProblem()
  useEffect(() => {
    if (data) setText(data.text)
  }, [data])
  const save = (event: FormEvent) => {
    event.preventDefault()
    clear()
    requestJson("PUT", "me/instructions", { text: text.trim() }).then(() => setSaved(true), fail)
  }
  return (
    <form className="settings-form" onSubmit={save}>
      <label>
        <span>{t("instructions.title")}</span>
        <textarea
          rows={3}
          disabled={!data}
          placeholder={t("instructions.example")}
          value={text}
          onChange={(event) => {
            setText(event.target.value)
            setSaved(false)
          }}
        />
        <small>{t("instructions.about")}</small>
      </label>
      <ProblemText text={problem || unread} />
      <div className="preset-line">
        <button disabled={!data || saved || text.trim() === data.text}>{t("instructions.save")}</button>
        {saved && <span role="status">{t("instructions.saved")}</span>}
      </div>
    </form>
  )
}
