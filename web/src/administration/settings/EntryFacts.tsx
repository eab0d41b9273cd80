// Where an entry comes from, and what is wrong with it.
import { formatRelative } from "../../app/format"
import { useLanguage } from "../../locales"
import { useAdministrationText } from "../../locales/administration"
import type { SettingEntry } from "../../wire/types"
import { useProblem } from "../../wire/useProblem"
import { deleteEntry } from "./requests"
import { ProblemText } from "../../components/ProblemText"

/** How the server names the program that embeds it. */
const PROGRAM = "the program"

export function SourcePill({ entry }: { entry: SettingEntry }) {
  const a = useAdministrationText()
  return <span className={entry.source === "store" ? "pill ok" : "pill"}>{a(entry.source === "store" ? "fromStore" : entry.location === PROGRAM ? "fromProgram" : "fromFile")}</span>
}

export function EntryFacts({ entry, onChanged }: { entry: SettingEntry; onChanged: () => void }) {
  const a = useAdministrationText()
  const language = useLanguage()
  const [problem, fail] = useProblem()
  return (
    <>
      <p className="facts">
        {entry.source === "file" ? <span>{entry.location === PROGRAM ? a("inProgram") : a("location", { location: entry.location })}</span> : <span>{a("changed", { by: entry.changed_by, when: formatRelative(entry.changed_at, Date.now() / 1000, language) })}</span>}
      </p>
      {entry.problem && <p className="problem">{entry.problem}</p>}
      {entry.conflict && (
        <div className="newer">
          <p>
            <strong>{a("conflict")}:</strong> {entry.conflict}
          </p>
          <div className="button-row">
            <button onClick={() => void deleteEntry(entry).then(onChanged, fail)}>{a("removeStored")}</button>
          </div>
        </div>
      )}
      <ProblemText text={problem} />
    </>
  )
}
