"""Who a request comes from: a key or a token becomes a Caller. It does not know HTTP beyond the names of headers.

Without any key the yard is local: the caller is the administrator of this machine, and the surface lets nobody in from
elsewhere.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from toolyard.core.caller import BUILT_IN_ROLES, Caller
from toolyard.core.errors import Forbidden, NotFound, Refused, Unauthenticated
from toolyard.core.ports import Clock
from toolyard.core.store import Key, Keys

LOCAL_ADMIN = Caller(user="local", roles=frozenset({"admin", "operator", "approver"}))
DELEGATION_HEADERS = ("x-user", "x-roles", "x-division")

VerifyToken = Callable[[str], Caller]


def hash_key(secret: str) -> str:
    """Keys are long and random, so one round of a fast hash keeps them as well as a slow one."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


class Authenticator:
    def __init__(
        self, store: Keys, clock: Clock, *, configured: Sequence[Key] = (), verify: VerifyToken | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._configured = {key.hash: key for key in configured}
        self._stored_keys: dict[str, Key] = {}
        self._verify = verify

    async def load(self) -> None:
        self._stored_keys = {key.hash: key for key in await self._store.keys()}

    @property
    def is_local(self) -> bool:
        """Whether nobody has been given a key: then only this machine may come in."""
        return not (self._configured or self._stored_keys or self._verify)

    def keys(self) -> list[Key]:
        return [*self._configured.values(), *self._stored_keys.values()]

    async def add(self, key: Key) -> tuple[Key, str]:
        """Keep a new key; the secret itself is given out once and kept nowhere."""
        if any(known.name == key.name for known in self.keys()):
            raise Refused(f"there is a key named {key.name!r} already; revoke it first or choose another name")
        secret = f"ty_{secrets.token_urlsafe(32)}"
        kept = replace(key, hash=hash_key(secret), created_at=self._clock.now())
        await self._store.save_key(kept)
        self._stored_keys[kept.hash] = kept
        return kept, secret

    async def revoke(self, name: str) -> None:
        if any(key.name == name for key in self._configured.values()):
            raise Refused(f"the key {name!r} stands in the configuration file; take it out there")
        self._require_another_admin(name)
        if not await self._store.revoke_key(name):
            raise NotFound(f"there is no key named {name!r}")
        self._stored_keys = {digest: key for digest, key in self._stored_keys.items() if key.name != name}

    def _require_another_admin(self, name: str) -> None:
        """Raise Refused if without this key nobody could administer what it administers.

        Tokens may name administrators, so with a verifier nobody is locked out. Neither is anybody where no key is left
        at all: then the server asks for none, and whoever is on this machine administers it.
        """
        key = next((key for key in self.keys() if key.name == name), None)
        others = [other for other in self.keys() if other.name != name]
        if key is None or "admin" not in key.roles or self._verify is not None or not others:
            return
        if not any(other.administers(key.tenant) for other in others):
            whose = f"the tenant {key.tenant!r}" if key.tenant else "the server"
            raise Refused(
                f"the key {name!r} is the last one of an administrator of {whose}: revoking it would lock everybody "
                "out. Add another key with the role admin first"
            )

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        """The caller of a request with these headers (names in lower case). Raises Unauthenticated or Forbidden."""
        secret = _read_secret(headers)
        if self.is_local:
            return _apply_delegation(LOCAL_ADMIN, headers, None)
        if not secret:
            raise Unauthenticated("send your API key as `Authorization: Bearer KEY` or as `X-API-Key: KEY`")
        if self._verify is not None and secret.count(".") == 2:
            return _apply_delegation(self._verify(secret), headers, None)
        key = self._find_key(hash_key(secret))
        caller = Caller(user=key.user, roles=key.roles, tenant=key.tenant, division=_single_division(key.divisions))
        return _apply_delegation(caller, headers, key)

    def authenticate_in_division(self, headers: Mapping[str, str], division: str) -> Caller:
        """The same caller in a division that the request names in its body. Raises Forbidden if it is not theirs."""
        caller = self.authenticate(headers)
        if division == caller.division:
            return caller
        if not self.is_local and division not in self._allowed_divisions(headers):
            raise Forbidden(f"the division {division[:80]!r} is not one of this key's")
        return replace(caller, division=division)

    def _allowed_divisions(self, headers: Mapping[str, str]) -> frozenset[str]:
        """Those that a body may name: the key's, unless a header has named one. A token has the one that it names."""
        secret = _read_secret(headers)
        if "x-division" in headers or (self._verify is not None and secret.count(".") == 2):
            return frozenset()
        return self._find_key(hash_key(secret)).divisions

    def _find_key(self, digest: str) -> Key:
        for known in self.keys():
            if hmac.compare_digest(known.hash, digest):
                return known
        raise Unauthenticated("this API key is not known here; it may have been revoked")


def _read_secret(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "").strip()


def _apply_delegation(caller: Caller, headers: Mapping[str, str], key: Key | None) -> Caller:
    """A trusted key names the end user it speaks for; from any other the headers are refused, not ignored.

    An end user never inherits the roles of the backend that names them.
    """
    named = [name for name in DELEGATION_HEADERS if name in headers]
    language = headers.get("accept-language", "").partition(",")[0].partition(";")[0].strip()
    caller = replace(caller, locale=language[:35]) if language and language != "*" else caller
    if not named:
        return caller
    if key is None or not key.trusted:
        raise Forbidden(f"{', '.join(named)} may be sent only with a key that is marked as trusted")
    division = headers.get("x-division", caller.division)
    if division and division not in key.divisions:
        raise Forbidden(f"the division {division[:80]!r} is not one of this key's")
    named_roles = frozenset(role.strip() for role in headers.get("x-roles", "").split(",") if role.strip())
    if lacking := sorted((named_roles & BUILT_IN_ROLES) - key.roles):
        raise Forbidden(f"X-Roles may name the role {lacking[0]!r} only with a key that has this role itself")
    roles = caller.roles if "x-roles" not in headers and "x-user" not in headers else named_roles
    return replace(caller, user=headers.get("x-user") or caller.user, roles=roles, division=division)


def _single_division(divisions: frozenset[str]) -> str:
    return next(iter(divisions)) if len(divisions) == 1 else ""
