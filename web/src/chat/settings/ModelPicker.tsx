// The model of a conversation: shown by its name, chosen from a list.
import { ChevronsUpDown } from "lucide-react"
import { useState } from "react"
import { Dialog } from "../../components/Dialog"
import { SearchList, matchesQuery } from "../../components/SearchList"
import { ProblemText } from "../../components/ProblemText"
import { loadModels, useModels } from "../../state/models"
import { useProblem } from "../../wire/useProblem"
import { useTranslate } from "../../locales"
import { getPresetName } from "./newSettings"

interface ModelPickerProps {
  /** The id of the chosen model; empty if the server's default answers. */
  model: string
  /** Null for a user who may only read the conversation. */
  onChoose: ((model: string) => Promise<void>) | null
}

export function ModelPicker({ model, onChoose }: ModelPickerProps) {
  const t = useTranslate()
  const models = useModels()
  const [open, setOpen] = useState(false)
  const shown = models?.models.find((card) => (model ? card.id === model : card.default))
  const name = shown?.name || shown?.id || getPresetName(model) || model
  if (!name) return null
  if (!onChoose) return <span className="model-name">{name}</span>
  const show = () => {
    void loadModels() // the lists of providers are fetched in the background and may have arrived meanwhile
    setOpen(true)
  }
  return (
    <>
      <button type="button" className="quiet model-name" aria-label={`${t("model.choose")}: ${name}`} title={shown?.id ?? model} aria-haspopup="dialog" onClick={show}>
        <span>{name}</span> <ChevronsUpDown aria-hidden />
      </button>
      {open && <ModelDialog model={shown?.id ?? model} onChoose={onChoose} onClose={() => setOpen(false)} />}
    </>
  )
}

export function ModelDialog({ model, onChoose, onClose }: { model: string; onChoose: (model: string) => Promise<void>; onClose: () => void }) {
  const t = useTranslate()
  const models = useModels()
  const [query, setQuery] = useState("")
  const [problem, fail] = useProblem()
  const cards = (models?.models ?? []).filter((card) => matchesQuery(`${card.id} ${card.name}`, query))
  const options = cards.map((card) => ({
    id: card.id,
    label: card.id,
    group: card.provider,
    detail: card.available ? (card.default ? t("model.default") : "") : card.reason,
    current: card.id === model,
    disabled: !card.available,
  }))
  const pick = (id: string) => {
    onChoose(id).then(onClose, fail)
  }
  return (
    <Dialog title={t("model.choose")} onClose={onClose}>
      <ProblemText text={problem} />
      <SearchList label={t("model.search")} query={query} onQuery={setQuery} options={options} onPick={pick} empty={t("model.none")} />
      {Object.entries(models?.list_problems ?? {}).map(([provider, reason]) => (
        <small key={provider}>
          {provider}: {reason}
        </small>
      ))}
    </Dialog>
  )
}
