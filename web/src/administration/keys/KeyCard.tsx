import { formatRelative } from "../../app/format"
import { useLanguage } from "../../locales"
import { useAdministrationText } from "../../locales/administration"
import { useMe } from "../../session/caller"
import type { KeyView } from "../../wire/types"

interface KeyCardProps {
  keyView: KeyView
  onAction: (action: "rotate" | "revoke" | "access") => void
}

/** A key with its owner, rights and times. */
export function KeyCard({ keyView, onAction }: KeyCardProps) {
  const a = useAdministrationText()
  const me = useMe()
  const language = useLanguage()
  const now = Date.now() / 1000
  const tell = (at: number) => formatRelative(at, now, language)
  const { name, user, tenant, roles, expires_at, last_used_at, previous_until } = keyView
  const limits = [
    keyView.trusted && a("keys.isTrusted"),
    keyView.divisions.length && a("keys.ofDivisions", { names: keyView.divisions.join(", ") }),
    keyView.tools.length && a("keys.limitedTools", { names: keyView.tools.join(", ") }),
    keyView.models.length && a("keys.limitedModels", { names: keyView.models.join(", ") }),
    keyView.origins.length && a("keys.limitedOrigins", { names: keyView.origins.join(", ") }),
  ].filter(Boolean)
  return (
    <li className="card">
      <header>
        <h2>{name}</h2>
        <span>{[user, tenant].filter(Boolean).join(" · ")}</span>
        {roles.length ? (
          roles.map((role) => (
            <span className="pill" key={role}>
              {role}
            </span>
          ))
        ) : (
          <small>{a("keys.noRoles")}</small>
        )}
        {keyView.configured && <span className="pill">{a("fromFile")}</span>}
        {name === me.key && <span className="pill ok">{a("keys.own")}</span>}
      </header>
      <p className="facts">
        <span>{last_used_at ? a("keys.lastUsed", { when: tell(last_used_at) }) : a("keys.unused")}</span>
        <span className={expires_at && expires_at < now ? "problem" : ""}>{expires_at ? a(expires_at < now ? "keys.over" : "keys.until", { when: tell(expires_at) }) : a("keys.noExpiry")}</span>
        {keyView.created_at > 0 && <span>{a("keys.created", { when: tell(keyView.created_at) })}</span>}
        {previous_until > now && <span>{a("keys.overlap", { when: tell(previous_until) })}</span>}
        {limits.map((limit) => (
          <span key={String(limit)}>{limit}</span>
        ))}
        {keyView.location && <span>{a("location", { location: keyView.location })}</span>}
      </p>
      {keyView.conflict && (
        <div className="newer">
          <p>
            <strong>{a("conflict")}:</strong> {keyView.conflict}
          </p>
          <div className="button-row">
            <button onClick={() => onAction("revoke")}>{a("removeStored")}</button>
          </div>
        </div>
      )}
      <div className="button-row">
        <button aria-label={`${a("keys.access")} ${name}`} onClick={() => onAction("access")}>
          {a("keys.access")}
        </button>
        {!keyView.configured && (
          <>
            <button aria-label={a("keys.rotateOf", { name })} onClick={() => onAction("rotate")}>
              {a("keys.rotate")}
            </button>
            <button className="quiet" aria-label={a("keys.revokeOf", { name })} onClick={() => onAction("revoke")}>
              {a("keys.revoke")}
            </button>
          </>
        )}
      </div>
    </li>
  )
}
