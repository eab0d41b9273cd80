// The settings of a conversation in one dialog: what the model is told, how it answers, its limits and its tools.
import { useState, type FormEvent } from "react"
import { Dialog } from "../components/Dialog"
import { enqueueRequest } from "../state/requestQueue"
import { HttpError, requestJson } from "../wire/http"
import type { Conversation, ConversationAnswer, PresetSettings } from "../wire/types"
import { useProblem } from "../wire/useProblem"
import { useQuery } from "../wire/useQuery"
import { useTranslate, type MessageKey } from "../locales"
import { EnabledTools } from "./EnabledTools"
import { PresetSection } from "./Presets"

export function SettingsDialog({ conversation, onClose }: { conversation: string; onClose: () => void }) {
  const t = useTranslate()
  const path = `conversations/${encodeURIComponent(conversation)}`
  const { data, problem } = useQuery<ConversationAnswer>(path)
  return (
    <Dialog title={t("settings.title")} onClose={onClose}>
      {problem && <p className="problem">{problem}</p>}
      {data && <SettingsForm settings={data.conversation} onSaved={onClose} />}
      <h3>{t("chat.tools")}</h3>
      <EnabledTools conversation={conversation} />
    </Dialog>
  )
}

/** The number fields: their names in the form and on the wire, and what they accept. An empty field means no value. */
const NUMBERS = [
  { name: "temperature", min: 0, max: 2, step: 0.1 },
  { name: "max_turns", min: 1, step: 1 },
  { name: "max_messages", min: 0, step: 1 },
  { name: "max_tokens", min: 0, step: 1 },
] as const

type NumberName = (typeof NUMBERS)[number]["name"]

function SettingsForm({ settings, onSaved }: { settings: Conversation; onSaved: () => void }) {
  const t = useTranslate()
  const [prompt, setPrompt] = useState(settings.system_prompt)
  const [numbers, setNumbers] = useState<Record<NumberName, string>>({
    temperature: String(settings.options.temperature ?? ""),
    max_turns: String(settings.max_turns),
    max_messages: String(settings.max_messages ?? ""),
    max_tokens: String(settings.max_tokens ?? ""),
  })
  const [busy, setBusy] = useState(false)
  const [problem, fail, clear] = useProblem()
  const [fields, setFields] = useState<Record<string, string>>({})
  const save = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    clear()
    try {
      await enqueueRequest(settings.id, () => requestJson("PUT", `conversations/${encodeURIComponent(settings.id)}`, toChange(settings, prompt, numbers)))
      onSaved()
    } catch (error) {
      fail(error)
      setFields(error instanceof HttpError ? error.fields : {})
      setBusy(false)
    }
  }
  const collect = ({ model, tools }: Conversation): PresetSettings => ({ ...toChange(settings, prompt, numbers), model, tools })
  return (
    <>
      <form className="settings-form" onSubmit={(event) => void save(event)}>
        <label>
          <span>{t("settings.prompt")}</span>
          <textarea rows={4} maxLength={100_000} value={prompt} onChange={(event) => setPrompt(event.target.value)} />
        </label>
        <div className="settings-numbers">
          {NUMBERS.map(({ name, ...bounds }) => (
            <label key={name}>
              <span>{t(`settings.${name}` as MessageKey)}</span>
              <input type="number" {...bounds} required={name === "max_turns"} placeholder={t(name === "temperature" ? "settings.byProvider" : "settings.noLimit")} value={numbers[name]} onChange={(event) => setNumbers({ ...numbers, [name]: event.target.value })} />
              {fields[name] && <small className="problem">{fields[name]}</small>}
            </label>
          ))}
        </div>
        {problem && (
          <p className="problem" role="alert">
            {problem}
          </p>
        )}
        <footer>
          <button className="primary" disabled={busy}>
            {t("common.save")}
          </button>
        </footer>
      </form>
      <PresetSection conversation={settings.id} collect={collect} onUsed={onSaved} />
    </>
  )
}

/** Return the change that the form makes. Zero stands for no limit, and options that the form does not show stay. */
function toChange(settings: Conversation, prompt: string, numbers: Record<NumberName, string>): Omit<PresetSettings, "model" | "tools"> {
  const { temperature: _, ...options } = settings.options
  return {
    system_prompt: prompt,
    max_turns: Number(numbers.max_turns),
    max_messages: Number(numbers.max_messages),
    max_tokens: Number(numbers.max_tokens),
    options: numbers.temperature === "" ? options : { ...options, temperature: Number(numbers.temperature) },
  }
}
