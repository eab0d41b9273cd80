"""Sessions of people who use the web page: signing in with a key once, and being known by a random token from then on.

A session is bound to the key that opened it. It ends when its owner signs out, when it was not used for a while, after
a total time, and as soon as the key is revoked or its rights are not what they were.
"""

import secrets
from collections.abc import Mapping
from typing import Protocol

import msgspec

from toolyard.core.caller import Caller
from toolyard.core.errors import Forbidden, RateLimited, Refused, Unauthenticated
from toolyard.core.limits import SessionLimits
from toolyard.core.ports import Clock
from toolyard.core.store import SESSION, AccessToken, AccessTokens, Limiter
from toolyard.engine.authentication import DELEGATION_HEADERS, Authenticator, KeyBinding, apply_language, hash_key

MAX_SIGN_INS_PER_MINUTE = 20
"""For each address that people sign in from. Successful attempts count, too: a guess may be one."""
TOKEN_BYTES = 32
EXTEND_SHARE = 0.05
"""A session is extended once this share of its idle time has passed, so that few requests cost a write."""
ENDED = "this session has ended; sign in again"
_binding_decoder = msgspec.json.Decoder(KeyBinding)


class SessionStore(AccessTokens, Limiter, Protocol):
    """The ports of a store that sessions need."""


class Sessions:
    """Opens, checks and ends sessions. They are kept in the store, so that every replica knows them."""

    def __init__(self, store: SessionStore, access: Authenticator, clock: Clock, limits: SessionLimits) -> None:
        self._store = store
        self._access = access
        self._clock = clock
        self.limits = limits

    async def open(self, secret: str, address: str) -> str:
        """Return the token of a new session for the owner of a key. Raises Unauthenticated, RateLimited or Refused."""
        if self._access.is_local:
            raise Refused("this server has no keys: nobody has to sign in")
        now = self._clock.now()
        # Counted before the key is checked: otherwise a right guess would be told from a wrong one at any rate.
        allowance = await self._store.take_allowance(f"sign-in/{address}", MAX_SIGN_INS_PER_MINUTE, now)
        if not allowance.granted:
            message = f"too many sign-ins from your address; come again in {allowance.retry_after_s:.0f} s"
            raise RateLimited(message, retry_after_s=allowance.retry_after_s, per_minute=MAX_SIGN_INS_PER_MINUTE)
        binding = self._access.bind(secret)
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

    async def authenticate(self, token: str, headers: Mapping[str, str]) -> Caller:
        """Return the caller of a request with this session. Raises Unauthenticated or Forbidden."""
        if named := [name for name in DELEGATION_HEADERS if name in headers]:
            raise Forbidden(f"{', '.join(named)} may be sent only with a key, not with a session")
        stored, now = await self._store.read_token(SESSION, hash_key(token)), self._clock.now()
        if stored is None:
            raise Unauthenticated(ENDED)
        binding = _binding_decoder.decode(stored.body)
        end = self._find_end(stored.created_at, binding)
        caller = self._access.find_bound_caller(binding)
        # The limits may have been lowered since the session was opened, so the total is computed again.
        if caller is None or now >= min(stored.expires_at, end):
            await self._store.delete_token(SESSION, stored.hash)
            raise Unauthenticated(ENDED)
        expires_at = min(now + self.limits.idle_s, end)
        if expires_at - stored.expires_at > self.limits.idle_s * EXTEND_SHARE:
            await self._store.extend_token(SESSION, stored.hash, expires_at)
        return apply_language(caller, headers)

    async def close(self, token: str) -> None:
        """End a session. From now on its token opens nothing, at any replica."""
        await self._store.delete_token(SESSION, hash_key(token))

    def _find_end(self, created_at: float, binding: KeyBinding) -> float:
        end = created_at + self.limits.total_s
        return end if binding.expires_at is None else min(end, binding.expires_at)
