// Creates a key. The first one of a server is an administrator's, and the page signs in with it at once.
import { useState, type FormEvent } from "react"
import { Select } from "../../components/Select"
import { Dialog } from "../../components/Dialog"
import { ProblemText } from "../../components/ProblemText"
import { useTranslate } from "../../locales"
import { useAdministrationText } from "../../locales/administration"
import { isServerAdmin, useMe } from "../../session/caller"
import { HttpError, requestJson } from "../../wire/http"
import type { NewKeyAnswer } from "../../wire/types"
import { useProblem } from "../../wire/useProblem"
import { FieldInput } from "../settings/FieldInput"
import { splitLines } from "../settings/fieldKinds"
import { staySignedIn } from "./staySignedIn"

const ROLES = ["admin", "operator", "approver"] as const
const EXPIRY_DAYS = [30, 90, 365]
const LISTS = ["divisions", "tools", "models", "origins"] as const
const HINTS = { divisions: "keys.divisionsHint", tools: "keys.limitHint", models: "keys.limitHint", origins: "keys.originsHint" } as const
const DAY_S = 86_400

interface NewKeyProps {
  onCreated: (answer: NewKeyAnswer) => void
  onClose: () => void
}

export function NewKey({ onCreated, onClose }: NewKeyProps) {
  const t = useTranslate()
  const a = useAdministrationText()
  const me = useMe()
  const isFirst = me.keyless
  const [name, setName] = useState("")
  const [user, setUser] = useState("")
  const [roles, setRoles] = useState<string[]>(isFirst ? [...ROLES] : [])
  const [otherRoles, setOtherRoles] = useState<unknown>()
  const [tenant, setTenant] = useState("")
  const [days, setDays] = useState(0)
  const [trusted, setTrusted] = useState(false)
  const [limits, setLimits] = useState<Partial<Record<(typeof LISTS)[number], unknown>>>({})
  const [problem, fail, clear] = useProblem()
  const [wrongField, setWrongField] = useState("")
  const [busy, setBusy] = useState(false)
  // A tenant's administrator gives only the roles that the own key has.
  const grantable = ROLES.filter((role) => isServerAdmin(me) || me.roles.includes(role))
  const create = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    clear()
    const body = {
      name: name.trim(),
      user: user.trim(),
      roles: [...roles, ...((otherRoles as string[] | undefined) ?? [])],
      tenant: tenant.trim(),
      trusted,
      expires_at: days ? Math.round(Date.now() / 1000) + days * DAY_S : 0,
      ...Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined)),
    }
    try {
      const add = () => requestJson<NewKeyAnswer>("POST", "keys", body)
      onCreated(await (isFirst ? staySignedIn(add) : add()))
    } catch (error) {
      fail(error)
      setWrongField(error instanceof HttpError ? String(error.body.details["field"] ?? "") : "")
      setBusy(false)
    }
  }
  const problemOf = (field: string) => (wrongField === field ? problem : "")
  const isShownAtField = problem !== "" && ["name", "user", "origins"].includes(wrongField)
  const toggle = (role: string) => setRoles(roles.includes(role) ? roles.filter((other) => other !== role) : [...roles, role])
  return (
    <Dialog title={a("keys.add")} onClose={onClose}>
      <form className="entry-form" onSubmit={(event) => void create(event)}>
        {isFirst && <p className="newer">{a("keys.first")}</p>}
        <FieldInput label={a("keys.user")} hint={a("keys.userHint")} kind="text" required value={user} problem={problemOf("user")} onChange={(typed) => setUser(String(typed ?? ""))} />
        <FieldInput label={a("keys.name")} hint={a("keys.nameHint")} kind="text" required value={name} problem={problemOf("name")} onChange={(typed) => setName(String(typed ?? ""))} />
        <fieldset className="choices">
          <legend>{a("keys.roles")}</legend>
          {grantable.map((role) => (
            <label key={role}>
              <input type="checkbox" checked={roles.includes(role)} disabled={isFirst && role === "admin"} onChange={() => toggle(role)} />
              <span>
                {role}
                <small>{a(`keys.role.${role}`)}</small>
              </span>
            </label>
          ))}
        </fieldset>
        <div className="field">
          <label htmlFor="key-expiry">{a("keys.expires")}</label>
          <Select id="key-expiry" label={a("keys.expires")} value={String(days)} onChange={(n) => setDays(Number(n))} options={[{ value: "0", label: a("keys.never") }, ...(isFirst ? [] : EXPIRY_DAYS.map((n) => ({ value: String(n), label: a("keys.days", { n }) })))]} />
        </div>
        {!isFirst && (
          <details>
            <summary>{a("moreFields")}</summary>
            <div className="entry-form">
              <FieldInput label={a("keys.otherRoles")} hint={a("oneEach")} kind="list" value={otherRoles} onChange={setOtherRoles} />
              {isServerAdmin(me) && <FieldInput label={a("keys.tenant")} hint={a("keys.tenantHint")} kind="text" value={tenant} onChange={(typed) => setTenant(String(typed ?? ""))} />}
              {LISTS.map((field) => (
                <FieldInput key={field} label={a(`keys.${field}`)} hint={a(HINTS[field])} kind="list" value={limits[field]} problem={problemOf(field)} onChange={(value) => setLimits({ ...limits, [field]: value && splitLines((value as string[]).join("\n")) })} />
              ))}
              {isServerAdmin(me) && (
                <div className="choices">
                  <label>
                    <input type="checkbox" checked={trusted} onChange={() => setTrusted(!trusted)} />
                    <span>
                      {a("keys.trusted")}
                      <small>{a("keys.trustedHint")}</small>
                    </span>
                  </label>
                </div>
              )}
            </div>
          </details>
        )}
        <ProblemText text={isShownAtField ? "" : problem} />
        <footer>
          <button type="button" onClick={onClose}>
            {t("common.cancel")}
          </button>
          <button className="primary" disabled={busy || !name.trim() || !user.trim()}>
            {a("keys.add")}
          </button>
        </footer>
      </form>
    </Dialog>
  )
}
