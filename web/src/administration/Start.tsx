// The first minutes of a server: connect a model or go on without, add tools, invite people.
import { Check } from "lucide-react"
import { useState, type ReactNode } from "react"
import { buildHref } from "../app/route"
import { useAdministrationText } from "../locales/administration"
import { OFFLINE_MODEL, useModels } from "../state/models"
import type { KeyList, ToolList } from "../wire/types"
import { useQuery } from "../wire/useQuery"

/** Remembers in this browser that the user wants no model. */
const WITHOUT_MODEL = "toolyard.withoutModel"

export function Start() {
  const a = useAdministrationText()
  const model = useModels()?.models.find((card) => card.default && card.id !== OFFLINE_MODEL)
  const tools = useQuery<ToolList>("tools").data?.count ?? 0
  const keys = useQuery<KeyList>("keys").data?.count ?? 0
  const [without, setWithout] = useState(localStorage.getItem(WITHOUT_MODEL) !== null)
  const goWithout = () => {
    localStorage.setItem(WITHOUT_MODEL, "1")
    setWithout(true)
  }
  return (
    <>
      <p className="about">{a("start.about")}</p>
      <ol className="steps">
        <Step title={a("start.model")} done={Boolean(model) || without}>
          <p>{model ? a("start.modelDone", { model: model.id }) : a(without ? "start.without" : "start.modelAbout")}</p>
          {!model && (
            <div className="button-row">
              <a className="button" href={buildHref("administration", "models/add")}>
                {a("start.goModel")}
              </a>
              {!without && (
                <button className="quiet" onClick={goWithout}>
                  {a("start.goWithout")}
                </button>
              )}
            </div>
          )}
        </Step>
        <Step title={a("start.tools")} done={tools > 0}>
          <p>{tools ? a("start.toolsDone", { n: tools }) : a("start.toolsAbout")}</p>
          <div className="button-row">
            <a className="button" href={buildHref("administration", "servers/add")}>
              {a("start.goTools")}
            </a>
            {tools > 0 && <a href={buildHref("tools")}>{a("start.tryTools")}</a>}
          </div>
        </Step>
        <Step title={a("start.people")} done={keys > 0}>
          <p>{keys ? a("start.peopleDone", { n: keys }) : a("start.peopleAbout")}</p>
          <div className="button-row">
            <a className="button" href={buildHref("administration", "keys/add")}>
              {a("start.goPeople")}
            </a>
          </div>
        </Step>
      </ol>
    </>
  )
}

function Step({ title, done, children }: { title: string; done: boolean; children: ReactNode }) {
  const a = useAdministrationText()
  return (
    <li className="card" data-done={done ? "" : undefined}>
      <header>
        <h2>{title}</h2>
        {done && (
          <span className="pill ok">
            <Check aria-hidden /> {a("start.isDone")}
          </span>
        )}
      </header>
      {children}
    </li>
  )
}
