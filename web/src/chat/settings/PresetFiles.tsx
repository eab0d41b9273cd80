// The files of a preset: each is text that the model reads in every turn. A change is saved at once.
import { FileText, Paperclip, X } from "lucide-react"
import { useRef, useState } from "react"
import { ProblemText } from "../../components/ProblemText"
import { readChosenFile } from "../../attachments/readChosenFile"
import { useTranslate } from "../../locales"
import { useMe } from "../../session/caller"
import { HttpError, requestJson } from "../../wire/http"
import type { PresetAnswer, PresetList, PresetView } from "../../wire/types"
import { useProblem } from "../../wire/useProblem"

interface PresetFilesProps {
  preset: PresetView
  limits: Pick<PresetList, "max_files" | "max_files_bytes">
  onChanged: (preset: PresetView) => void
}

export function PresetFiles({ preset, limits, onChanged }: PresetFilesProps) {
  const t = useTranslate()
  const me = useMe()
  const input = useRef<HTMLInputElement>(null)
  const [busy, setBusy] = useState(false)
  const [problem, fail, clear] = useProblem()
  const save = async (collect: () => Promise<{ name: string; text?: string }[]>) => {
    setBusy(true)
    clear()
    try {
      const body = { settings: preset.settings, shared: preset.shared, files: await collect() }
      onChanged((await requestJson<PresetAnswer>("PUT", `presets/${encodeURIComponent(preset.name)}`, body)).preset)
    } catch (error) {
      // Its own files have been checked: what is left is the room for all presets.
      fail(error instanceof HttpError && error.status === 409 ? new Error(t("preset.noRoom")) : error)
    }
    setBusy(false)
  }
  const read = async (file: File) => {
    const { name, kind, bytes } = await readChosenFile(file, me, t)
    if (kind !== "text") throw new Error(t("preset.onlyText", { name }))
    return { name, text: new TextDecoder().decode(bytes), bytes: bytes.length }
  }
  const add = (files: File[]) =>
    save(async () => {
      const added = await Promise.all(files.map(read))
      const kept = preset.files.filter(({ name }) => !added.some((file) => file.name === name))
      const all = [...kept, ...added]
      if (all.length > limits.max_files) throw new Error(t("preset.manyFiles", { n: limits.max_files }))
      if (all.reduce((sum, { bytes }) => sum + bytes, 0) > limits.max_files_bytes) throw new Error(t("preset.largeFiles", { size: Math.floor(limits.max_files_bytes / 1000) }))
      return [...kept.map(({ name }) => ({ name })), ...added.map(({ name, text }) => ({ name, text }))]
    })
  const remove = (removed: string) => save(async () => preset.files.filter(({ name }) => name !== removed).map(({ name }) => ({ name })))
  return (
    <div className="preset-files">
      {preset.files.length > 0 && (
        <ul className="attachments" aria-label={t("preset.filesOf", { name: preset.name })}>
          {preset.files.map(({ name, tokens }) => (
            <li key={name}>
              <FileText aria-hidden />
              <span title={name}>{name}</span>
              <small>{t("preset.fileTokens", { n: tokens })}</small>
              <button type="button" className="icon" disabled={busy} aria-label={t("attach.remove", { name })} onClick={() => void remove(name)}>
                <X aria-hidden />
              </button>
            </li>
          ))}
        </ul>
      )}
      <input
        ref={input}
        type="file"
        multiple
        hidden
        onChange={(event) => {
          void add([...(event.target.files ?? [])])
          event.target.value = "" // so that the same file can be chosen again
        }}
      />
      <div className="preset-line">
        <button type="button" disabled={busy} onClick={() => input.current?.click()}>
          <Paperclip aria-hidden /> {t("preset.addFiles")}
        </button>
        {preset.tokens > 0 && <small>{t("preset.tokens", { n: preset.tokens })}</small>}
      </div>
      <ProblemText text={problem} />
    </div>
  )
}
