"""Sessions of people who use the web page: signing in once, and being known by a random token from then on.

A session is bound to the key that opened it, or to the identity provider's settings. It ends when its owner signs out,
when it was not used for a while, after a total time, and as soon as the key is revoked or the rights are not what they
were.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.errors import Forbidden, RateLimited, Refused, Unauthenticated
from toolyard.core.ports import Clock
from toolyard.core.settings.limits import SessionLimits
from toolyard.core.store import SESSION, AccessToken, AccessTokens, Limiter
from toolyard.engine.access.authentication import (
    DELEGATION_HEADERS,
    Authenticator,
    KeyBinding,
    apply_language,
    hash_key,
)
from toolyard.engine.access.refusals import find_network

MAX_FAILED_PER_ADDRESS = 60
"""Failed sign-ins of an address in a minute. Many people can have one address, as those of an office do."""
MAX_FAILED_PER_KEY = 10
"""Failed sign-ins in a minute, from all addresses together, with keys that begin alike."""
MAX_PREFIX_CHARS = 11
MAX_SESSIONS = 50
"""How many sessions a key may have at a time. A further one ends the oldest."""
TOKEN_BYTES = 32
EXTEND_SHARE = 0.05
"""A session is extended once this share of its idle time has passed, so that few requests cost a write."""
ENDED = "this session has ended; sign in again"
_binding_decoder = msgspec.json.Decoder(KeyBinding)


SessionSource = Literal["key", "provider", "token"]
"""Where the roles of a session come from: its key, the groups at the identity provider, or a verified token."""


class SignedInPerson(Struct, frozen=True, kw_only=True):
    """Somebody with open sessions whose roles have one origin."""

    user: str
    tenant: str
    roles: list[str]
    source: SessionSource
    key: str
    """The name of the key that opened the sessions; empty for another source."""
    sessions: int
    signed_in_at: float
    last_used_at: float
    """When a session was last extended: up to a twentieth of the idle time before its last use."""


class SessionStore(AccessTokens, Limiter, Protocol):
    """The ports of a store that sessions need."""


class Sessions:
    """Opens, checks and ends sessions. They are kept in the store, so that every replica knows them."""

    def __init__(
        self,
        store: SessionStore,
        access: Authenticator,
        clock: Clock,
        limits: SessionLimits,
        count_failure: Callable[[str], Awaitable[object]],
    ) -> None:
        """`count_failure` is called with the address of each sign-in that fails."""
        self._store = store
        self.count_failure = count_failure
        self._access = access
        self._clock = clock
        self.limits = limits

    async def open(self, secret: str, address: str, headers: Mapping[str, str] = {}) -> str:
        """Return the token of a new session for the owner of a key.

        `headers` are those of the request, with names in lower case. Raises Unauthenticated, Forbidden, RateLimited or
        Refused.
        """
        if self._access.is_local:
            raise Refused("this server has no keys and needs no sign-in")
        try:
            return await self._open(secret, address, headers)
        except (Unauthenticated, RateLimited):
            await self.count_failure(address)
            raise

    async def _open(self, secret: str, address: str, headers: Mapping[str, str]) -> str:
        now = self._clock.now()
        # Counted before the key is checked, and taken back if it is right: were a right guess let through at any rate,
        # the limit would not slow guessing down.
        counted = await self._count_attempt(secret, address, now)
        binding = self._access.bind(secret, headers)
        for key, per_minute in counted:
            await self._store.return_allowance(key, per_minute)
        return await self._save(binding, now)

    async def open_for(self, caller: Caller, rights: str) -> str:
        """Return the token of a new session for a person whom the identity provider has identified.

        `rights` is the digest of the provider's settings that the caller's rights come from.
        """
        return await self._save(KeyBinding(caller=caller, rights=rights), self._clock.now())

    async def _save(self, binding: KeyBinding, now: float) -> str:
        await self._make_room(binding)
        token = secrets.token_urlsafe(TOKEN_BYTES)
        await self._store.save_token(
            AccessToken(
                kind=SESSION,
                hash=hash_key(token),
                created_at=now,
                expires_at=min(now + self.limits.idle_s, self._find_end(now, binding)),
                body=msgspec.json.encode(binding),
            )
        )
        return token

    async def _count_attempt(self, secret: str, address: str, now: float) -> list[tuple[str, int]]:
        """Count an attempt, and return what it was counted for. Raises RateLimited."""
        counted: list[tuple[str, int]] = []
        limits = [(f"sign-in/{find_network(address)}", MAX_FAILED_PER_ADDRESS)]
        # Verified tokens all begin alike. Nobody guesses a signature, and one guest must not lock out all the others.
        if self._access.find_verifier(secret) is None:
            prefix = secret[: min(MAX_PREFIX_CHARS, len(secret) // 2)]
            limits.append((f"sign-in-key/{hash_key(prefix)}", MAX_FAILED_PER_KEY))
        for key, per_minute in limits:
            allowance = await self._store.take_allowance(key, per_minute, now)
            if not allowance.granted:
                raise RateLimited.after("too many failed sign-ins", allowance.retry_after_s, per_minute)
            counted.append((key, per_minute))
        return counted

    async def _make_room(self, binding: KeyBinding) -> None:
        """End the oldest sessions of a key that has as many as it may have."""
        tokens = await self._store.list_tokens(SESSION, "")
        same_owner = [token for token in tokens if _is_same_owner(_read_binding(token), binding)]
        for token in same_owner[: max(0, len(same_owner) + 1 - MAX_SESSIONS)]:
            await self._store.delete_token(SESSION, token.hash)

    async def identify(self, token: str, headers: Mapping[str, str]) -> tuple[Caller, str]:
        """Return the caller of a request with this session, and the name of the key that opened it, else `session`.

        Raises Unauthenticated or Forbidden.
        """
        if named := [name for name in DELEGATION_HEADERS if name in headers]:
            raise Forbidden(f"{', '.join(named)} may be sent only with a key, not with a session")
        stored, now = await self._store.read_token(SESSION, hash_key(token)), self._clock.now()
        if stored is None:
            raise Unauthenticated(ENDED)
        bound = self._find_caller(stored, now)
        if bound is None:
            await self._store.delete_token(SESSION, stored.hash)
            raise Unauthenticated(ENDED)
        expires_at = min(now + self.limits.idle_s, self._find_end(stored.created_at, _read_binding(stored)))
        if expires_at - stored.expires_at > self.limits.idle_s * EXTEND_SHARE:
            await self._store.extend_token(SESSION, stored.hash, expires_at)
        caller, key = bound
        return apply_language(caller, headers), key

    async def is_open(self, token: str) -> bool:
        """Return whether a session goes on. Asking does not extend it."""
        stored = await self._store.read_token(SESSION, hash_key(token))
        return stored is not None and self._find_caller(stored, self._clock.now()) is not None

    async def close(self, token: str) -> None:
        """End a session. From now on its token opens nothing, at any replica."""
        await self._store.delete_token(SESSION, hash_key(token))

    async def list_people(self, tenant: str | None) -> list[SignedInPerson]:
        """Return who has open sessions, of one tenant or of all, each once for each origin of their roles."""
        people: dict[tuple[Caller, str, SessionSource], SignedInPerson] = {}
        for token, caller, key in await self._list_open(tenant):
            source = _find_source(_read_binding(token))
            person = people.get((caller, key, source))
            used_at = max(token.created_at, token.expires_at - self.limits.idle_s)
            people[caller, key, source] = SignedInPerson(
                user=caller.user,
                tenant=caller.tenant,
                roles=sorted(caller.roles),
                source=source,
                key=key if source == "key" else "",
                sessions=person.sessions + 1 if person else 1,
                signed_in_at=min(token.created_at, person.signed_in_at) if person else token.created_at,
                last_used_at=max(used_at, person.last_used_at) if person else used_at,
            )
        return list(people.values())

    async def end_all(self, user: str, tenant: str) -> int:
        """End all sessions of a person, and return how many they were."""
        tokens = [token for token, caller, _ in await self._list_open(tenant) if caller.user == user]
        for token in tokens:
            await self._store.delete_token(SESSION, token.hash)
        return len(tokens)

    async def _list_open(self, tenant: str | None) -> list[tuple[AccessToken, Caller, str]]:
        now = self._clock.now()
        tokens = await self._store.list_tokens(SESSION, "")
        bound = ((token, self._find_caller(token, now, notes_use=False)) for token in tokens)
        return [(token, *session) for token, session in bound if session and tenant in (None, session[0].tenant)]

    def _find_caller(self, stored: AccessToken, now: float, *, notes_use: bool = True) -> tuple[Caller, str] | None:
        """Return the caller of a session and the name of its key; None once it has ended."""
        binding = _read_binding(stored)
        # The limits may have been lowered since the session was opened, so the total is computed again.
        if now >= min(stored.expires_at, self._find_end(stored.created_at, binding)):
            return None
        return self._access.find_bound_caller(binding, notes_use=notes_use)

    def _find_end(self, created_at: float, binding: KeyBinding) -> float:
        end = created_at + self.limits.total_s
        return end if binding.expires_at is None else min(end, binding.expires_at)


def _read_binding(token: AccessToken) -> KeyBinding:
    return _binding_decoder.decode(token.body)


def _find_source(binding: KeyBinding) -> SessionSource:
    if binding.caller is None:
        return "key"
    return "provider" if binding.rights else "token"


def _is_same_owner(binding: KeyBinding, other: KeyBinding) -> bool:
    if binding.caller is None or other.caller is None:
        return binding.caller is other.caller and binding.key_hash == other.key_hash
    return (binding.caller.tenant, binding.caller.user) == (other.caller.tenant, other.caller.user)
