"""Authenticates requests: turns an API key or a token in the headers into a Caller.

Without any key, token verifier or identity provider the server is local: every caller is the administrator, and the
surfaces accept requests from this machine only.
"""

import asyncio
import binascii
import hashlib
import hmac
import logging
import secrets
from base64 import urlsafe_b64decode
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import BUILT_IN_ROLES, Caller
from toolyard.core.errors import Forbidden, Invalid, NotFound, Outdated, Refused, ToolyardError, Unauthenticated
from toolyard.core.ports import Clock
from toolyard.core.store import KEYS, AuditedKeyValue, Key, Keys, RecordChange
from toolyard.core.store.audit_chain import AuditAction, AuditRecord, hash_content
from toolyard.core.tool_identity import TOOL_NAMES, BoundName, ToolIdentity, bind_names
from toolyard.observability.auditor import RecordAuditor

LOCAL_ADMIN = Caller(user="local", roles=frozenset({"admin", "operator", "approver"}))
KEY_USES = "key_use"
"""The kind of record that holds when a key was used last, by the key's name."""
KEY_CONFLICT = "the store has a key of this name too, which is not accepted: the configuration comes first"
USE_WRITTEN_EVERY_S = 60.0
"""How often the last use of a key is written at most, by each process."""
MAX_OVERLAP_S = 90 * 86_400.0
"""The longest time for which the secret before a rotation stays valid."""
TOKEN_GRACE_S = 900.0
"""How long a stream may go on after its token has expired: a long answer is not cut, and no stream is endless."""
_UNAUDITED_FIELDS = ("hash", "previous_hash", "bound_tools")
_VERSION_CHARS = 16
_log = logging.getLogger("toolyard.keys")
DELEGATION_HEADERS = ("x-user", "x-roles", "x-division")

VerifyToken = Callable[[str], Caller]


def hash_key(secret: str) -> str:
    """Return the hash under which a key is stored."""
    # Keys are long and random, so a slow password hash would not make guessing them any harder.
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


class KeyBinding(Struct, frozen=True, kw_only=True):
    """What ties a session to its origin: a key, a token that was verified, or a sign-in at the identity provider."""

    key_hash: str = ""
    rights: str = ""
    """A digest of all fields of the key, or of the provider's settings: a session ends when one of them changes."""
    caller: Caller | None = None
    """The caller of a verified token, or whom the provider has identified; None for a key."""
    expires_at: float | None = None
    """When the verified token expires."""


class KeyStore(Keys, AuditedKeyValue, Protocol):
    """The ports of a store that keys need."""


class Authenticator:
    """The configured keys, the stored keys and the token verifier of a server."""

    def __init__(
        self,
        store: KeyStore,
        clock: Clock,
        *,
        configured: Sequence[Key] = (),
        verify: VerifyToken | None = None,
        token_issuer: str = "",
        provider_rights: str = "",
        provider_admin_tenants: frozenset[str] = frozenset(),
    ) -> None:
        """`token_issuer` issues the tokens that `verify` takes. Empty means unknown: any token may be one of them.

        `provider_rights` is the digest of the identity provider's settings; empty if there is no provider.

        `provider_admin_tenants` are the tenants whose administrators may sign in there; an empty name is the server's.
        """
        self._store = store
        self._clock = clock
        self._auditor = RecordAuditor(store, clock)
        self._configured = {key.hash: key for key in configured}
        self._stored_keys: dict[str, Key] = {}
        self._shadowed: dict[str, Key] = {}
        """The stored keys that are not used, because the configuration has keys of their names."""
        self._keys: list[Key] = []
        self._by_name: dict[str, Key] = {}
        self._set_stored_keys({})
        self._verify = verify
        self._token_issuer = token_issuer
        self._provider_rights = provider_rights
        self._provider_admin_tenants = provider_admin_tenants
        self._lost_keys = False
        """Whether other processes have revoked all keys that this one had."""
        # Without it, keys that were read before a change and arrive after it would undo the change for a while.
        self._reading = asyncio.Lock()
        self._written_uses: dict[str, float] = {}
        self._unwritten_uses: dict[str, float] = {}

    async def load(self) -> None:
        """Read the stored keys, also after another process has changed them. If that fails, the earlier ones hold."""
        async with self._reading:
            await self._read()

    async def _read(self) -> None:
        stored_keys = {key.hash: key for key in await self._store.keys()}
        # This server may listen publicly, because it had keys when it started: it must never let everybody in.
        self._lost_keys = not stored_keys and (self._lost_keys or bool(self._stored_keys))
        self._set_stored_keys(stored_keys)

    def _set_stored_keys(self, stored_keys: dict[str, Key]) -> None:
        shadowed = {key.name: key for key in stored_keys.values() if self.is_configured(key.name)}
        for name in sorted(shadowed.keys() - self._shadowed.keys()):
            _log.warning("the stored key %r is not accepted: the configuration, which comes first, has one too", name)
        self._stored_keys, self._shadowed = stored_keys, shadowed
        used = (key for key in stored_keys.values() if key.name not in shadowed)
        self._keys = [*self._configured.values(), *used]
        self._by_name = {key.name: key for key in self._keys}

    @property
    def is_local(self) -> bool:
        """Return whether nobody can prove who they are: then only requests from this machine are accepted."""
        has_keys = self._configured or self._stored_keys or self._lost_keys
        return not (has_keys or self._verify or self._provider_rights)

    def keys(self) -> list[Key]:
        """Return the keys that are used: those of the configuration, then those of the store with other names."""
        return self._keys

    def is_configured(self, name: str) -> bool:
        """Return whether the configuration has a key of this name."""
        return any(key.name == name for key in self._configured.values())

    def find_shadowed(self, name: str) -> Key | None:
        """Return the stored key of this name that is not used, because the configuration has one; None if none is."""
        return self._shadowed.get(name)

    def get_version(self, name: str) -> str:
        """Return the version of the stored key of this name; empty if there is none."""
        key = self._shadowed.get(name) or (None if self.is_configured(name) else self._by_name.get(name))
        return hash_content(key)[:_VERSION_CHARS] if key is not None else ""

    def _require_version(self, name: str, expected: str | None) -> None:
        if expected is not None and expected != self.get_version(name):
            raise Outdated(f"the key {name[:80]!r} was changed since it was read")

    async def add(self, key: Key, *, keep_admin: bool = False) -> tuple[Key, str]:
        """Store a new key and return it with its secret, which is stored nowhere.

        With `keep_admin`, raise Invalid for a first key that administers nothing: as soon as there is a key, nobody is
        the administrator without one.
        """
        secret = _create_secret()
        bound_tools = await self._find_bound_tools(key.tools)
        stored_key = replace(key, hash=hash_key(secret), created_at=self._clock.now(), bound_tools=bound_tools)
        async with self._reading, self._store.lock(KEYS, ""):
            await self._read()
            if any(existing.name == key.name for existing in self.keys()):
                raise Refused(f"there is a key named {key.name!r} already; revoke it first or choose another name")
            if keep_admin and self.is_local and not key.administers(""):
                raise Invalid(
                    "the first key has to have the role admin and no tenant, or nobody could administer this server",
                    {"field": "tenant" if key.tenant else "roles"},
                )
            if keep_admin and self.is_local and (field := _find_restriction(key)):
                raise Invalid(
                    "the first key has to be accepted at any time and from any page, or it would lock everybody out",
                    {"field": field},
                )
            await self._save("key.add", stored_key)
            self._set_stored_keys({**self._stored_keys, stored_key.hash: stored_key})
        return stored_key, secret

    async def _find_bound_tools(self, names: Collection[str]) -> frozenset[BoundName]:
        """Return the names that are bound to tools of servers, with those tools."""
        if not names:
            return frozenset()
        bodies = {name: body for name, body in await self._store.list_records(TOOL_NAMES) if name in names}
        identities = {name: msgspec.json.decode(body, type=ToolIdentity) for name, body in bodies.items()}
        return bind_names(identities, identities.get)

    async def revoke(self, name: str, *, keep_last: bool = False, expected: str | None = None) -> None:
        """Revoke a key, or the stored one that is not used because the configuration has a key of its name.

        With `keep_last`, raise Refused if it is the only one. `expected` is the version that the caller has seen:
        Outdated is raised if it is another one by now.
        """
        # Under the lock: of two replicas that revoke a key each, the second must see that its key is the last one.
        async with self._reading, self._store.lock(KEYS, ""):
            await self._read()
            self._require_version(name, expected)
            key = self._shadowed.get(name) or self._find_revocable(name, keep_last=keep_last)
            revoked = RecordChange(kind=KEYS, name=name, audit=self._build_audit("key.revoke", key, None))
            uses = [] if name in self._shadowed else [RecordChange(kind=KEY_USES, name=name)]
            await self._auditor.change_records([revoked, *uses])
            self._set_stored_keys({digest: key for digest, key in self._stored_keys.items() if key.name != name})

    def _find_revocable(self, name: str, *, keep_last: bool) -> Key:
        """Return the stored key of this name, which is used. Raise Refused if it has to stay, or NotFound."""
        if keep_last and [key.name for key in self.keys()] == [name]:
            raise Refused(
                "this is the last key, and without keys the server admits everybody: "
                "add another key first, or stop the server and then revoke this one"
            )
        if self.is_configured(name):
            raise Refused(f"the key {name!r} is in the configuration file; remove it there")
        self._require_another_admin(name)
        if (key := self._by_name.get(name)) is None:
            raise NotFound(f"there is no key named {name!r}")
        return key

    async def rotate(self, name: str, overlap_s: float, *, expected: str | None = None) -> tuple[Key, str]:
        """Give a key a new secret and return both. The old secret is accepted for `overlap_s` more seconds.

        `expected` is as for `revoke`.
        """
        if not 0 <= overlap_s <= MAX_OVERLAP_S:
            raise Invalid(f"the old secret may stay valid for 0 to {MAX_OVERLAP_S:.0f} seconds", {"field": "overlap_s"})
        secret = _create_secret()
        async with self._reading, self._store.lock(KEYS, ""):
            await self._read()
            self._require_version(name, expected)
            if self.is_configured(name):
                raise Refused(f"the key {name!r} is in the configuration file; change its hash there")
            if (key := self._by_name.get(name)) is None:
                raise NotFound(f"there is no key named {name!r}")
            until = self._clock.now() + overlap_s if overlap_s else 0.0
            # The secret before the old one ends here, however long it was to be accepted: two are valid at most.
            rotated = replace(key, hash=hash_key(secret), previous_hash=key.hash, previous_until=until)
            await self._save("key.rotate", rotated, key)
            await self._read()
        return rotated, secret

    async def _save(self, action: AuditAction, key: Key, before: Key | None = None) -> None:
        """Store a key together with the audit entry about it."""
        audit, body = self._build_audit(action, before, key), msgspec.json.encode(key)
        await self._auditor.change_records([RecordChange(kind=KEYS, name=key.name, body=body, audit=audit)])

    def _build_audit(self, action: AuditAction, before: Key | None, after: Key | None) -> AuditRecord:
        """Return the audit entry about a key: what it was and what it is, without the hashes of its secrets."""
        key = after or before
        assert key is not None
        change = {"before": before and _describe_key(before), "after": after and _describe_key(after)}
        text = msgspec.json.encode(change, order="sorted").decode()
        return self._auditor.build_record(action, key.name, tenant=key.tenant, change=text)

    async def save_uses(self) -> None:
        """Write when keys were used that have not been written for a while. A store that is down loses the note."""
        uses, self._unwritten_uses = self._unwritten_uses, {}
        for name, at in uses.items():
            self._written_uses[name] = at
            with suppress(ToolyardError):
                await self._store.set_record(KEY_USES, name, msgspec.json.encode(at))

    async def read_uses(self) -> dict[str, float]:
        """Return when each key was used last, by name, as exactly as USE_WRITTEN_EVERY_S."""
        return {name: msgspec.json.decode(body, type=float) for name, body in await self._store.list_records(KEY_USES)}

    def _note_use(self, key: Key) -> None:
        now = self._clock.now()
        if now - self._written_uses.get(key.name, 0.0) >= USE_WRITTEN_EVERY_S:
            self._unwritten_uses[key.name] = now

    def _require_another_admin(self, name: str) -> None:
        """Raise Refused if without this key no administrator of its tenant, or of the server, would be left.

        With a token verifier nobody is locked out, as tokens may name administrators. Nor is anybody when the last key
        goes and nobody signs in elsewhere: the server is local then, and every caller on this machine administers it.
        """
        key = next((key for key in self.keys() if key.name == name), None)
        if key is None or "admin" not in key.roles or self._verify is not None:
            return
        others, now = [other for other in self.keys() if other.name != name], self._clock.now()
        becomes_local = not others and not self._provider_rights
        names_admins_elsewhere = not self._provider_admin_tenants.isdisjoint({"", key.tenant})
        if becomes_local or names_admins_elsewhere:
            return
        if not any(other.administers(key.tenant) and not other.find_time_problem(now) for other in others):
            whose = f"the tenant {key.tenant!r}" if key.tenant else "the server"
            raise Refused(
                f"the key {name!r} is the last one of an administrator of {whose}: revoking it would lock everybody "
                "out. Add another key with the role admin first"
            )

    def find_caller(self, name: str) -> Caller | None:
        """Return the caller of the key of this name; None if there is none."""
        key = self._by_name.get(name)
        return _build_caller(key) if key is not None else None

    def find_revocation(self, caller: Caller, begun_at: float) -> str:
        """Return why a run that began at this time may go on no more: its caller's key was revoked; empty if it may.

        A key with the name of one that was revoked is another one. Only what restricts counts: a key that has more
        roles by now gives them to later runs.
        """
        if not caller.key or self.is_local:
            return ""
        key = self._by_name.get(caller.key)
        if key is None or key.created_at > begun_at:
            return f"the key {caller.key[:80]!r} was revoked"
        if not key.trusted and (lost := sorted(caller.roles - key.roles)):
            return f"the key {caller.key[:80]!r} does not have the role {lost[0][:80]!r} any more"
        return ""

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        """Return the caller of a request with these headers, whose names are in lower case.

        Raises Unauthenticated or Forbidden.
        """
        caller, _ = self.identify(headers)
        return caller

    def identify(self, headers: Mapping[str, str]) -> tuple[Caller, str]:
        """Return the caller of a request, and the name of its key: `token` for a token, empty without keys.

        Raises Unauthenticated or Forbidden.
        """
        if self.is_local:
            return _apply_delegation(LOCAL_ADMIN, headers, None), ""
        secret, *others = self._select_secrets(headers) or [""]
        if not secret:
            raise Unauthenticated(
                "send your API key in the header X-API-Key, or in the header Authorization after `Bearer`"
            )
        for other in others:
            self._require_valid(other)
        if verify := self.find_verifier(secret):
            return _apply_delegation(verify(secret), headers, None), "token"
        key = self._find_key(hash_key(secret))
        _require_origin(key, headers)
        self._note_use(key)
        return _apply_delegation(_build_caller(key), headers, key), key.name

    def select_secret(self, headers: Mapping[str, str]) -> str:
        """Return the key or the token that a request is made with; empty if it carries none."""
        return next(iter(self._select_secrets(headers)), "")

    def count_foreign(self, headers: Mapping[str, str]) -> int:
        """Return how many credentials of a request are neither a key nor a token of this server."""
        return 0 if self.is_local else sum(not self._is_own(secret) for secret in read_secrets(headers))

    def _select_secrets(self, headers: Mapping[str, str]) -> list[str]:
        """Return the credentials that count: of two, those of this server, else the first."""
        # Browsers and proxies add credentials of other services. One that was made by this server is never ignored:
        # whoever sends it means to be its caller, who must not become somebody else once it has expired.
        secrets = read_secrets(headers)
        return secrets if len(secrets) < 2 else [secret for secret in secrets if self._is_own(secret)] or secrets[:1]

    def _is_own(self, secret: str) -> bool:
        """Return whether this is a known key or a token of the configured issuer, valid or not."""
        if self.find_verifier(secret) is None:
            return self._match_key(hash_key(secret)) is not None
        return not self._token_issuer or _read_claims(secret).iss == self._token_issuer

    def _require_valid(self, secret: str) -> None:
        """Raise Unauthenticated for a key or a token that is not valid now."""
        if verify := self.find_verifier(secret):
            verify(secret)
        else:
            self._find_key(hash_key(secret))

    def find_verifier(self, secret: str) -> VerifyToken | None:
        """Return the verifier if this is a token for it to check; None for an API key, which may look like a token."""
        is_token = self._verify is not None and secret.count(".") == 2 and self._match_key(hash_key(secret)) is None
        return self._verify if is_token else None

    def is_past_grace(self, token: str) -> bool:
        """Return whether a verified token expired more than TOKEN_GRACE_S ago, so that streams opened with it end."""
        try:
            return self._clock.now() >= _read_expiry(token) + TOKEN_GRACE_S
        except Unauthenticated:
            return False  # a verifier of the application may take tokens that tell no expiry

    def bind(self, secret: str, headers: Mapping[str, str]) -> KeyBinding:
        """Return what ties a session to this key or token. Raises Unauthenticated if it is not valid, or Forbidden."""
        if verify := self.find_verifier(secret):
            return KeyBinding(caller=verify(secret), expires_at=_read_expiry(secret))
        digest = hash_key(secret)
        key = self._find_key(digest)
        _require_origin(key, headers)
        self._note_use(key)
        return KeyBinding(key_hash=digest, rights=_digest_rights(key, digest))

    def find_bound_caller(self, binding: KeyBinding, *, notes_use: bool = True) -> tuple[Caller, str] | None:
        """Return the caller of a session and the name of its key; None once the key was revoked, changed or expired.

        Without a key the name is `session`. The session of a token ends when tokens are no longer taken, that of a
        person when the provider's settings change. The key counts as used now, if `notes_use`.
        """
        if binding.caller is not None:
            is_valid = binding.rights == self._provider_rights if binding.rights else self._verify is not None
            return (binding.caller, "session") if is_valid else None
        key, now = self._match_key(binding.key_hash), self._clock.now()
        if key is None or key.find_time_problem(now) or _digest_rights(key, binding.key_hash) != binding.rights:
            return None
        if notes_use:
            self._note_use(key)
        return _build_caller(key), key.name

    def is_missing_user(self, headers: Mapping[str, str]) -> bool:
        """Return whether a key that speaks for end users names none. Raises Unauthenticated."""
        secret = self.select_secret(headers)
        if self.is_local or self.find_verifier(secret):
            return False
        return self._find_key(hash_key(secret)).trusted and not headers.get("x-user")

    def authenticate_in_division(self, headers: Mapping[str, str], division: str) -> Caller:
        """Return the caller in a division that the request's body names. Raises Forbidden for a division of others."""
        caller = self.authenticate(headers)
        if division == caller.division:
            return caller
        if not self.is_local and division not in self._allowed_divisions(headers):
            raise Forbidden(f"the division {division[:80]!r} is not one of this key's")
        return replace(caller, division=division)

    def _allowed_divisions(self, headers: Mapping[str, str]) -> frozenset[str]:
        """Return the divisions that a body may name: those of the key, unless a header or a token names one."""
        secret = self.select_secret(headers)
        if "x-division" in headers or self.find_verifier(secret):
            return frozenset()
        return self._find_key(hash_key(secret)).divisions

    def _match_key(self, digest: str) -> Key | None:
        """Return the key with a secret of this hash, whether it is valid by now or not."""
        now = self._clock.now()
        for key in self.keys():
            if any(hmac.compare_digest(accepted, digest) for accepted in key.list_hashes(now)):
                return key
        return None

    def _find_key(self, digest: str) -> Key:
        key = self._match_key(digest)
        if key is None:
            raise Unauthenticated("this API key is not known here; it may have been revoked")
        if problem := key.find_time_problem(self._clock.now()):
            raise Unauthenticated(problem)
        return key


def read_secrets(headers: Mapping[str, str]) -> list[str]:
    """Return the keys and tokens that the headers carry: that of `Authorization`, then that of `X-API-Key`."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    secrets = (token.strip() if scheme.lower() == "bearer" else "", headers.get("x-api-key", "").strip())
    return [secret for secret in dict.fromkeys(secrets) if secret]


def _apply_delegation(caller: Caller, headers: Mapping[str, str], key: Key | None) -> Caller:
    """Return the end user whom a trusted key speaks for. Raises Forbidden for such headers with any other key.

    An end user never inherits the roles of the backend that names them.
    """
    named = [name for name in DELEGATION_HEADERS if name in headers]
    caller = apply_language(caller, headers)
    if not named:
        return caller
    if key is None or not key.trusted:
        raise Forbidden(f"{', '.join(named)} may be sent only with a key that is marked as trusted")
    division = _decode_header(headers, "x-division") if "x-division" in headers else caller.division
    if division and division not in key.divisions:
        raise Forbidden(f"the division {division[:80]!r} is not one of this key's")
    named_roles = frozenset(role.strip() for role in _decode_header(headers, "x-roles").split(",") if role.strip())
    if lacking := sorted((named_roles & BUILT_IN_ROLES) - key.roles):
        raise Forbidden(f"X-Roles may name the role {lacking[0]!r} only with a key that has this role itself")
    roles = caller.roles if "x-roles" not in headers and "x-user" not in headers else named_roles
    return replace(caller, user=_decode_header(headers, "x-user") or caller.user, roles=roles, division=division)


def _decode_header(headers: Mapping[str, str], name: str) -> str:
    """Return the text of a header that was sent as UTF-8 or as Latin-1; empty without one.

    The server decodes headers as Latin-1. Without this, one name in two encodings would be two users.
    """
    text = headers.get(name, "")
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text


def apply_language(caller: Caller, headers: Mapping[str, str]) -> Caller:
    """Return the caller with the language that the request prefers."""
    language = headers.get("accept-language", "").partition(",")[0].partition(";")[0].strip()
    return replace(caller, locale=language[:35]) if language and language != "*" else caller


def _create_secret() -> str:
    return f"ty_{secrets.token_urlsafe(32)}"


def _require_origin(key: Key, headers: Mapping[str, str]) -> None:
    """Raise Forbidden for a request that does not come from a page of the key's origins, if it names any."""
    if key.origins and headers.get("origin", "") not in key.origins:
        raise Forbidden("this API key may be used only by the pages that it was made for")


def _describe_key(key: Key) -> dict[str, object]:
    """Return the fields of a key as the audit log keeps them, without the hashes of its secrets."""
    fields = msgspec.json.decode(msgspec.json.encode(key, order="sorted"), type=dict[str, object])
    return {name: value for name, value in fields.items() if name not in _UNAUDITED_FIELDS}


def _find_restriction(key: Key) -> str:
    """Return the field of a key for which it is not accepted at some times or from some clients; empty if it is."""
    return next((field for field in ("not_before", "expires_at", "origins") if getattr(key, field)), "")


def _build_caller(key: Key) -> Caller:
    return Caller(
        user=key.user,
        roles=key.roles,
        tenant=key.tenant,
        division=_single_division(key.divisions),
        tools=key.tools,
        bound_tools=key.bound_tools,
        models=key.models,
        key=key.name,
        server_tools=key.server_tools,
    )


def _digest_rights(key: Key, key_hash: str) -> str:
    """Return a digest of the key's fields with the secret that a session was opened with.

    A rotation alone does not end the session: its secret may be accepted for a while.
    """
    same_secret = replace(key, hash=key_hash, previous_hash="", previous_until=0.0)
    return hashlib.sha256(msgspec.json.encode(same_secret, order="deterministic")).hexdigest()


class _Claims(Struct):
    exp: float | None = None
    iss: object = None


def _read_claims(token: str) -> _Claims:
    """Return what a token says of itself, unverified; nothing if it cannot be read."""
    payload = token.split(".")[1]
    try:
        return msgspec.json.decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims)
    except (binascii.Error, ValueError):
        return _Claims()


def _read_expiry(token: str) -> float:
    """Return when a verified token expires. Raises Unauthenticated if it does not: its session would have no end."""
    expires_at = _read_claims(token).exp
    if expires_at is None:
        raise Unauthenticated("a token without an expiry opens no session")
    return expires_at


def _single_division(divisions: frozenset[str]) -> str:
    return next(iter(divisions)) if len(divisions) == 1 else ""
