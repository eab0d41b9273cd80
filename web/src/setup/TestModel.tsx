import { useState } from "react"
import { Select } from "../components/Select"
import { formatDuration } from "../app/format"
import { describeError, HttpError, requestJson } from "../wire/http"
import type { ModelCard } from "../wire/types"
import { useTranslate } from "../locales"

const TEST_PROMPT = "Reply with the word OK."

/** Sends a short request to a model, without tools, and shows what came back. */
export function TestModel({ models }: { models: ModelCard[] }) {
  const t = useTranslate()
  const [chosen, setChosen] = useState("")
  const [busy, setBusy] = useState(false)
  const [outcome, setOutcome] = useState<{ ok: boolean; text: string } | null>(null)
  const card = models.find((candidate) => candidate.id === chosen) ?? models[0]!
  const test = async () => {
    setBusy(true)
    setOutcome(null)
    const startedAt = performance.now()
    try {
      const reply = await askModel(card.id)
      setOutcome({ ok: true, text: t("setup.works", { took: formatDuration(performance.now() - startedAt), reply }) })
    } catch (error) {
      setOutcome({ ok: false, text: describeModelError(error) })
    } finally {
      setBusy(false)
    }
  }
  return (
    <>
      <div className="filters">
        <label>
          <span>{t("traces.model")}</span>
          <Select label={t("traces.model")} value={card.id} onChange={setChosen} options={models.map(({ id }) => ({ value: id, label: id }))} />
        </label>
        <button className="primary" disabled={busy || !card.available} onClick={() => void test()}>
          {t(busy ? "setup.testing" : "setup.testNow")}
        </button>
      </div>
      {!card.available && <p className="problem">{card.reason}</p>}
      <div role="status">{outcome && <p className={outcome.ok ? "good" : "problem"}>{outcome.text}</p>}</div>
    </>
  )
}

async function askModel(model: string): Promise<string> {
  const body = { model, messages: [{ role: "user", content: TEST_PROMPT }], toolyard: { server_tools: "none" } }
  const answer = await requestJson<{ choices: { message: { content: string | null } }[] }>("POST", "v1/chat/completions", body)
  return answer.choices[0]?.message.content ?? ""
}

/** Return the text of an error. On OpenAI's paths it is inside an object. */
function describeModelError(error: unknown): string {
  const inner = error instanceof HttpError ? (error.body.error as unknown as { message?: string }) : null
  return inner?.message ?? describeError(error)
}
