// Adds MCP servers: by address, from an mcp.json, or by a command. Each is tried before it can be saved.
import { useState } from "react"
import { Dialog } from "../../components/Dialog"
import { ProblemText } from "../../components/ProblemText"
import { useTranslate } from "../../locales"
import { useAdministrationText } from "../../locales/administration"
import { describeError, HttpError, requestJson } from "../../wire/http"
import type { ImportedServers, ServerAnswer, ServerTestAnswer, ServerView } from "../../wire/types"
import { FieldInput } from "../settings/FieldInput"
import { findFieldProblem, withValue, type Values } from "../settings/fieldKinds"
import { parseMcpJson, toTrialConfig, type AddableServers } from "./serverConfig"
import { TrialResult, type Trial } from "./TrialResult"

type Way = "url" | "json" | "command"

interface AddServerProps {
  addable: AddableServers
  onAdded: (servers: ServerView[]) => void
  onClose: () => void
}

export function AddServer({ addable, onAdded, onClose }: AddServerProps) {
  const t = useTranslate()
  const a = useAdministrationText()
  const [way, setWay] = useState<Way>("url")
  const [name, setName] = useState("")
  const [config, setConfig] = useState<Values>({})
  const [json, setJson] = useState("")
  /** The results of the trial of exactly what is in the form; null until it was tried. */
  const [trials, setTrials] = useState<Trial[] | null>(null)
  const [busy, setBusy] = useState(false)
  const [problem, setProblem] = useState("")
  const [fieldProblems, setFieldProblems] = useState<Record<string, string>>({})
  const ways: Way[] = addable === "all" ? ["url", "json", "command"] : ["url", "json"]
  const forgetTrial = () => {
    setTrials(null)
    setProblem("")
    setFieldProblems({})
  }
  const change = (field: string) => (value: unknown) => {
    forgetTrial()
    setConfig((old) => withValue(old, field, value))
  }
  const chooseWay = (chosen: Way) => {
    forgetTrial()
    setConfig({})
    setWay(chosen)
  }
  const attempt = async (work: () => Promise<void>) => {
    setBusy(true)
    forgetTrial()
    try {
      await work()
    } catch (error) {
      // The fields of a configuration come with the name of what it stands in.
      const fields = error instanceof HttpError ? Object.entries(error.fields).map(([key, message]) => [key.replace(/^(config|server)\./, ""), message]) : []
      setFieldProblems(Object.fromEntries(fields))
      setProblem(describeError(error))
    } finally {
      setBusy(false)
    }
  }
  const readServers = (): [string, Values][] => {
    if (way !== "json") return [[name.trim(), config]]
    try {
      return Object.entries(parseMcpJson(json)).map(([id, entry]) => [id, toTrialConfig(entry)])
    } catch (error) {
      throw new Error(a("servers.notJson", { why: error instanceof Error ? error.message : "" }))
    }
  }
  const test = () =>
    attempt(async () => {
      const results: Trial[] = []
      // One after the other: the server tries one at a time.
      for (const [id, tried] of readServers()) results.push({ name: id, ...(await requestJson<ServerTestAnswer>("POST", "servers/test", { name: id, config: tried })) })
      if (!results.length) await requestJson("POST", "servers/import", JSON.parse(json)) // which says what is wrong
      setTrials(results)
    })
  const add = () =>
    attempt(async () => {
      if (way === "json") onAdded((await requestJson<ImportedServers>("POST", "servers/import", JSON.parse(json))).servers)
      else onAdded([(await requestJson<ServerAnswer>("POST", "servers", { name: name.trim(), config })).server])
    })
  const usable = trials !== null && trials.every(({ test }) => test.ok || test.needs_sign_in)
  const isFilled = way === "json" ? json.trim() !== "" : name.trim() !== "" && Boolean(config[way])
  const findProblem = (field: string) => findFieldProblem(fieldProblems, field)
  const isShownAtField = ["name", "url", "command", "args", "headers", "env"].some(findProblem)
  return (
    <Dialog title={a("servers.add")} onClose={onClose}>
      <form
        className="entry-form"
        onSubmit={(event) => {
          event.preventDefault()
          void (usable ? add() : test())
        }}
      >
        <div className="switch" role="group" aria-label={a("servers.how")}>
          {ways.map((option) => (
            <button key={option} type="button" aria-pressed={way === option} onClick={() => chooseWay(option)}>
              {a(option === "url" ? "servers.byUrl" : option === "json" ? "servers.byJson" : "servers.byCommand")}
            </button>
          ))}
        </div>
        {way !== "json" && (
          <FieldInput
            label={a("name")}
            kind="text"
            required
            value={name}
            problem={findProblem("name")}
            onChange={(typed) => {
              forgetTrial()
              setName(String(typed ?? ""))
            }}
          />
        )}
        {way === "url" && (
          <>
            <FieldInput label={a("servers.url")} kind="text" required value={config["url"]} problem={findProblem("url")} onChange={change("url")} />
            <FieldInput key="headers" label={a("servers.headers")} hint={a("servers.writeOnly")} kind="map" secret value={config["headers"]} problem={findProblem("headers")} onChange={change("headers")} />
          </>
        )}
        {way === "command" && (
          <>
            <FieldInput label={a("servers.command")} hint={a("servers.commandAbout")} kind="text" required value={config["command"]} problem={findProblem("command")} onChange={change("command")} />
            <FieldInput label={a("servers.args")} hint={a("oneEach")} kind="list" value={config["args"]} problem={findProblem("args")} onChange={change("args")} />
            <FieldInput key="env" label={a("servers.env")} hint={a("servers.writeOnly")} kind="map" secret value={config["env"]} problem={findProblem("env")} onChange={change("env")} />
          </>
        )}
        {way === "json" && (
          <label className="field">
            <span>{a("servers.json")}</span>
            <textarea
              className="mono"
              rows={9}
              spellCheck={false}
              placeholder={'{"mcpServers": {"files": {"url": "https://…/mcp"}}}'}
              value={json}
              onChange={(event) => {
                forgetTrial()
                setJson(event.target.value)
              }}
            />
            <small>{a("servers.jsonAbout")}</small>
          </label>
        )}
        {trials && <TrialResult trials={trials} />}
        <ProblemText text={isShownAtField ? "" : problem} />
        {!usable && <small>{a("servers.testFirst")}</small>}
        <footer>
          <button type="button" onClick={onClose}>
            {t("common.cancel")}
          </button>
          {usable ? (
            <button className="primary" disabled={busy}>
              {a(way === "json" ? "servers.addAll" : "servers.save")}
            </button>
          ) : (
            <button className="primary" disabled={busy || !isFilled}>
              {a(busy ? "testing" : "test")}
            </button>
          )}
        </footer>
      </form>
    </Dialog>
  )
}
