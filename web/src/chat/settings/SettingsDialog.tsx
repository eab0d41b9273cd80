// The settings of a conversation in one dialog: what the model is told, how it answers, its limits and its tools.
import { useState, type FormEvent } from "react"
import { Dialog } from "../../components/Dialog"
import { ProblemText } from "../../components/ProblemText"
import { enqueueRequest } from "../../state/requestQueue"
import { HttpError, requestJson } from "../../wire/http"
import type { Conversation, ConversationAnswer, PresetSettings } from "../../wire/types"
import { useProblem } from "../../wire/useProblem"
import { useQuery } from "../../wire/useQuery"
import { useTranslate, type MessageKey } from "../../locales"
import { EnabledTools } from "./EnabledTools"
import { MyInstructions } from "./MyInstructions"
import { SettingFields } from "./SettingFields"
import { toOptions, type NewSettings, type WebSearch } from "./newSettings"
import { useMaySearch } from "./useMaySearch"
import { PresetSection } from "./Presets"

export default function SettingsDialog({ conversation, onClose }: { conversation: string; onClose: () => void }) {
  const t = useTranslate()
  const path = `conversations/${encodeURIComponent(conversation)}`
  const { data, problem } = useQuery<ConversationAnswer>(path)
  return (
    <Dialog title={t("settings.title")} onClose={onClose}>
      {problem && <p className="problem">{problem}</p>}
      {data && <SettingsForm settings={data.conversation} onSaved={onClose} />}
      <details className="settings-group" open>
        <summary>{t("chat.tools")}</summary>
        <EnabledTools conversation={conversation} />
      </details>
      <details className="settings-group">
        <summary>{t("instructions.title")}</summary>
        <MyInstructions />
      </details>
    </Dialog>
  )
}

/** The number fields: their names in the form and on the wire, and what they accept. An empty field means no value. */
const NUMBERS = [
  { name: "max_turns", min: 1, step: 1 },
  { name: "max_messages", min: 0, step: 1 },
  { name: "max_tokens", min: 0, step: 1 },
] as const

type NumberName = (typeof NUMBERS)[number]["name"]

function SettingsForm({ settings, onSaved }: { settings: Conversation; onSaved: () => void }) {
  const t = useTranslate()
  const maySearch = useMaySearch(settings.model)
  const [values, setValues] = useState({ prompt: settings.system_prompt, temperature: String(settings.options.temperature ?? ""), thinking: String(settings.options.thinking ?? ""), webSearch: (settings.web_search === "off" ? "off" : settings.web_search ? "auto" : "") as WebSearch })
  const [numbers, setNumbers] = useState<Record<NumberName, string>>({
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
      await enqueueRequest(settings.id, () => requestJson("PUT", `conversations/${encodeURIComponent(settings.id)}`, { ...toChange(settings, values, numbers), ...toSearchChange(settings, values.webSearch) }))
      onSaved()
    } catch (error) {
      fail(error)
      setFields(error instanceof HttpError ? error.fields : {})
      setBusy(false)
    }
  }
  const collect = ({ model, tools }: Conversation): PresetSettings => ({ ...toChange(settings, values, numbers), model, tools })
  return (
    <>
      <form className="settings-form" onSubmit={(event) => void save(event)}>
        <fieldset>
          <legend>{t("settings.answers")}</legend>
          <SettingFields values={values} maySearch={maySearch} problems={fields} onChange={(change) => setValues({ ...values, ...change })} />
        </fieldset>
        <fieldset>
          <legend>{t("settings.limits")}</legend>
          <div className="settings-numbers">
            {NUMBERS.map(({ name, ...bounds }) => (
              <label key={name}>
                <span>{t(`settings.${name}` as MessageKey)}</span>
                <input type="number" {...bounds} required={name === "max_turns"} placeholder={t("settings.noLimit")} value={numbers[name]} onChange={(event) => setNumbers({ ...numbers, [name]: event.target.value })} />
                {fields[name] && <small className="problem">{fields[name]}</small>}
              </label>
            ))}
          </div>
        </fieldset>
        <ProblemText text={problem} />
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
function toChange(settings: Conversation, values: Pick<NewSettings, "prompt" | "temperature" | "thinking">, numbers: Record<NumberName, string>): Omit<PresetSettings, "model" | "tools"> {
  return {
    system_prompt: values.prompt,
    max_turns: Number(numbers.max_turns),
    max_messages: Number(numbers.max_messages),
    max_tokens: Number(numbers.max_tokens),
    options: toOptions(settings.options, values),
  }
}

/** Return the change of where the web is searched. The form knows on and off only, and leaves a more exact choice as it is. */
function toSearchChange(settings: Conversation, mode: WebSearch): { web_search?: string } {
  const before = settings.web_search === "off" ? "off" : settings.web_search ? "auto" : ""
  return mode === before ? {} : { web_search: mode }
}
