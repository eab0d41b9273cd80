// Creates a key. The first one of a server is an administrator's, and the page signs in with it at once.
import { useState, type FormEvent } from "react"
import { Dialog } from "../../components/Dialog"
import { useTranslate } from "../../locales"
import { useAdministrationText } from "../../locales/administration"
import { isServerAdmin, useMe } from "../../session/caller"
import { HttpError, requestJson, session } from "../../wire/http"
import type { NewKeyAnswer } from "../../wire/types"
import { useProblem } from "../../wire/useProblem"
import { FieldInput } from "../settings/FieldInput"
import { splitLines } from "../settings/fieldKinds"

const ROLES = ["admin", "operator", "approver"] as const
const EXPIRY_DAYS = [30, 90, 365]
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
  const [limits, setLimits] = useState<Record<"tools" | "models" | "origins", unknown>>({ tools: undefined, models: undefined, origins: undefined })
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
      expires_at: days ? Math.round(Date.now() / 1000) + days * DAY_S : 0,
      ...Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined)),
    }
    try {
      onCreated(await (isFirst ? createFirst(body) : requestJson<NewKeyAnswer>("POST", "keys", body)))
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
          <select id="key-expiry" value={days} onChange={(event) => setDays(Number(event.target.value))}>
            <option value={0}>{a("keys.never")}</option>
            {!isFirst &&
              EXPIRY_DAYS.map((n) => (
                <option key={n} value={n}>
                  {a("keys.days", { n })}
                </option>
              ))}
          </select>
        </div>
        {!isFirst && (
          <details>
            <summary>{a("moreFields")}</summary>
            <div className="entry-form">
              <FieldInput label={a("keys.otherRoles")} hint={a("oneEach")} kind="lines" value={otherRoles} onChange={setOtherRoles} />
              {isServerAdmin(me) && <FieldInput label={a("keys.tenant")} hint={a("keys.tenantHint")} kind="text" value={tenant} onChange={(typed) => setTenant(String(typed ?? ""))} />}
              {(["tools", "models", "origins"] as const).map((field) => (
                <FieldInput key={field} label={a(`keys.${field}`)} hint={a(field === "origins" ? "keys.originsHint" : "keys.limitHint")} kind="lines" value={limits[field]} problem={problemOf(field)} onChange={(value) => setLimits({ ...limits, [field]: value && splitLines((value as string[]).join("\n")) })} />
              ))}
            </div>
          </details>
        )}
        {problem && !isShownAtField && (
          <p className="problem" role="alert">
            {problem}
          </p>
        )}
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

/** Create the first key and sign in with it. The page stays: its polls may be refused in between, and the secret would be lost. */
async function createFirst(body: unknown): Promise<NewKeyAnswer> {
  const { onUnauthorized } = session
  session.onUnauthorized = () => {}
  try {
    const answer = await requestJson<NewKeyAnswer>("POST", "keys", body)
    await requestJson("POST", "session", { key: answer.secret })
    return answer
  } finally {
    session.onUnauthorized = onUnauthorized
  }
}
