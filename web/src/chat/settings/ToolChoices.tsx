// A list of tools with checkboxes: narrowed by words, and set all at once or server by server.
import { useId, useState } from "react"
import { nameTool } from "../../components/humanize"
import { matchesQuery } from "../../components/SearchList"
import { useTranslate } from "../../locales"

export interface ToolChoice {
  key: string
  name: string
  title: string
  description: string
  /** The server that it is from; empty for tools of this server itself. */
  server: string
}

interface ToolChoicesProps {
  tools: ToolChoice[]
  isOn: (key: string) => boolean
  /** Called with the keys of the tools that are to be on or off. */
  onChange: (keys: string[], on: boolean) => void
}

export function ToolChoices({ tools, isOn, onChange }: ToolChoicesProps) {
  const t = useTranslate()
  const id = useId()
  const [query, setQuery] = useState("")
  const found = tools.filter(({ name, title, description }) => matchesQuery(`${name} ${title} ${description}`, query.trim()))
  const groups = [...Map.groupBy(found, ({ server }) => server)]
  const setAll = (members: ToolChoice[], on: boolean) => {
    const keys = members.map(({ key }) => key).filter((key) => isOn(key) !== on)
    if (keys.length) onChange(keys, on)
  }
  if (!tools.length) return <p className="empty">{t("tools.none")}</p>
  return (
    <div className="tool-choices">
      <div className="tool-choices-head">
        <input type="search" aria-label={t("tools.filter")} placeholder={t("tools.filter")} value={query} onChange={(event) => setQuery(event.target.value)} />
        <span role="status">{t("choices.count", { n: tools.filter(({ key }) => isOn(key)).length, count: tools.length })}</span>
        <button type="button" className="small" onClick={() => setAll(found, true)}>
          {t("choices.all")}
        </button>
        <button type="button" className="small" onClick={() => setAll(found, false)}>
          {t("choices.none")}
        </button>
      </div>
      {!found.length && <p className="empty">{t("tools.noMatch")}</p>}
      {groups.map(([server, members], index) => (
        <div key={server} role="group" aria-labelledby={`${id}-${index}`}>
          {(groups.length > 1 || server) && (
            <label className="tool-choices-server">
              <input type="checkbox" checked={members.every(({ key }) => isOn(key))} onChange={(event) => setAll(members, event.target.checked)} />
              <strong id={`${id}-${index}`}>{server || t("choices.ownTools")}</strong>
            </label>
          )}
          <ul className="choices">
            {members.map(({ key, name, title, description }) => (
              <li key={key}>
                <label>
                  <input type="checkbox" checked={isOn(key)} onChange={(event) => onChange([key], event.target.checked)} />
                  <span>
                    <span title={name}>{nameTool(name, title)}</span>
                    <small>{description}</small>
                  </span>
                </label>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </div>
  )
}
