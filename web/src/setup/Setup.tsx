// How to connect a language model: choose a provider, copy the lines with its key, and test the model with a real request.
import { useState } from "react"
import { Select } from "../components/Select"
import { OFFLINE_MODEL, loadModels, useModels } from "../state/models"
import { useTranslate } from "../locales"
import { CodeBlock } from "../components/markdown/CodeBlock"
import { TestModel } from "./TestModel"
import { buildFileLines, buildShellLines } from "./lines"

export default function Setup() {
  const t = useTranslate()
  const models = useModels()
  const [provider, setProvider] = useState("openai")
  const [model, setModel] = useState("")
  const chosen = models?.providers.find((candidate) => candidate.name === provider)
  const usable = models?.models.filter((card) => card.id !== OFFLINE_MODEL) ?? []
  return (
    <div className="page setup">
      <header className="page-head">
        <h1>{t("setup.title")}</h1>
      </header>
      <p>{t("setup.about")}</p>
      <ol>
        <li>
          <h2>{t("setup.provider")}</h2>
          <div className="filters">
            <label>
              <span>{t("setup.provider")}</span>
              <Select label={t("setup.provider")} value={provider} onChange={setProvider} options={models?.providers.map(({ name }) => ({ value: name, label: name })) ?? []} />
            </label>
            <label>
              <span>{t("setup.model")}</span>
              <input value={model} spellCheck={false} onChange={(event) => setModel(event.target.value)} />
            </label>
          </div>
        </li>
        <li>
          <h2>{t("setup.key")}</h2>
          {chosen && (
            <>
              <p>{t(chosen.key_variable ? "setup.environment" : "setup.noKey")}</p>
              <CodeBlock language="bash" text={buildShellLines(chosen, model)} />
              <p>{t("setup.file")}</p>
              <CodeBlock language="ini" text={buildFileLines(chosen, model)} />
              <p>{t("setup.restart")}</p>
            </>
          )}
        </li>
        <li>
          <h2>{t("setup.test")}</h2>
          {usable.length > 0 ? <TestModel models={usable} /> : <p className="empty">{t("setup.noneYet")}</p>}
          <button className="quiet" onClick={() => void loadModels()}>
            {t("setup.refresh")}
          </button>
          {Object.entries(models?.list_problems ?? {}).map(([name, reason]) => (
            <p key={name} className="problem">
              {name}: {reason}
            </p>
          ))}
        </li>
      </ol>
    </div>
  )
}
