"""Signing in to the web page at an identity provider: attempts that browsers have begun, and what finishes them.

An attempt is kept in the store, because another replica may get the provider's answer. It counts once, for ten minutes,
and only in the browser that began it. `IdentityProvider` speaks the provider's protocol.
"""

import secrets
from base64 import urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.errors import Refused
from toolyard.core.ports import Clock
from toolyard.core.store import AccessToken, KeyValue
from toolyard.engine.access.authentication import hash_key
from toolyard.engine.access.refusals import find_network
from toolyard.engine.access.sessions import Sessions, SessionStore

ATTEMPT = "sign_in"
"""The kind of access token that the `state` of an attempt is to the store."""
ATTEMPT_S = 600.0
"""How long a person may take at the provider."""
MAX_ATTEMPTS_PER_ADDRESS = 60
"""Attempts of an address in a minute. Many people can have one address, as those of an office do."""
MAX_ATTEMPTS = 1200
"""Attempts of all addresses together in a minute: beginning one needs no key, and each is a row for ten minutes."""
MAX_ERROR_CHARS = 80
TOKEN_BYTES = 32

FailureCode = Literal["busy", "denied", "expired", "failed", "no_access", "unavailable"]
"""Why a sign-in failed, for the page, which has a text for each."""


class SignInFailed(Refused):
    """Nobody was signed in. The message is for the log; the page shows the text of the code."""

    def __init__(self, code: FailureCode, reason: str) -> None:
        super().__init__(reason)
        self.code: FailureCode = code

    @property
    def is_suspicious(self) -> bool:
        """Whether somebody may have tried to get in who should not: neither we nor the person gave up."""
        return self.code in ("expired", "failed", "no_access")


class SignInAttempt(Struct, frozen=True, kw_only=True):
    """What one sign-in needs from its beginning to its end. Its `state` is stored as a hash only."""

    browser_hash: str
    """The hash of the token in the cookie of the browser that began it."""
    nonce: str
    """Comes back inside the provider's token, which is thereby known to be made for this attempt."""
    verifier: str
    """Proves to the provider that the code is exchanged by whoever began the attempt (PKCE)."""
    redirect_uri: str

    @property
    def challenge(self) -> str:
        """The verifier as the provider is shown it at the beginning (S256)."""
        return urlsafe_b64encode(sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()


class CallbackAnswer(Struct, frozen=True, kw_only=True):
    """The parameters that the provider sends a browser back with. Anybody can make them up."""

    state: str = ""
    code: str = ""
    error: str = ""
    issuer: str | None = None


class BegunSignIn(Struct, frozen=True, kw_only=True):
    url: str
    """The provider's page."""
    browser_token: str
    """For a cookie of the browser that is sent there."""


class IdentityProvider(Protocol):
    """Where people sign in. Both methods raise SignInFailed."""

    @property
    def name(self) -> str:
        """How the page names the provider."""
        ...

    @property
    def rights(self) -> str:
        """A digest of the settings that give people their rights: a session ends when one of them changes."""
        ...

    @property
    def admin_tenants(self) -> frozenset[str]:
        """The tenants whose administrators may sign in here; an empty name stands for the whole server."""
        ...

    async def build_url(self, attempt: SignInAttempt, state: str) -> str:
        """Return the provider's page for an attempt."""
        ...

    async def identify(self, attempt: SignInAttempt, answer: CallbackAnswer) -> Caller:
        """Return who has signed in, proven by the provider itself."""
        ...


class SignInStore(SessionStore, KeyValue, Protocol):
    """The ports of a store that sign-ins need."""


class ProviderSignIns:
    """Begins sign-ins at a provider, and opens sessions for those who come back."""

    def __init__(self, store: SignInStore, sessions: Sessions, provider: IdentityProvider, clock: Clock) -> None:
        self._store = store
        self._sessions = sessions
        self._provider = provider
        self._clock = clock

    @property
    def name(self) -> str:
        return self._provider.name

    async def begin(self, redirect_uri: str, address: str) -> BegunSignIn:
        """Store a new attempt, and return the page to send its browser to. Raises SignInFailed."""
        now = self._clock.now()
        limits = ((f"sign-in-begin/{find_network(address)}", MAX_ATTEMPTS_PER_ADDRESS), ("sign-in-begin", MAX_ATTEMPTS))
        for key, per_minute in limits:
            if not (await self._store.take_allowance(key, per_minute, now)).granted:
                raise SignInFailed("busy", f"more than {per_minute} sign-ins were begun in a minute")
        state, browser_token = _create_token(), _create_token()
        attempt = SignInAttempt(
            browser_hash=hash_key(browser_token),
            nonce=_create_token(),
            verifier=_create_token(),
            redirect_uri=redirect_uri,
        )
        url = await self._provider.build_url(attempt, state)
        await self._store.save_token(
            AccessToken(
                kind=ATTEMPT,
                hash=hash_key(state),
                created_at=now,
                expires_at=now + ATTEMPT_S,
                body=msgspec.json.encode(attempt),
            )
        )
        return BegunSignIn(url=url, browser_token=browser_token)

    async def finish(self, answer: CallbackAnswer, browser_token: str) -> str:
        """Return the token of a new session for the person whom the provider has identified. Raises SignInFailed."""
        attempt = await self._take_attempt(answer.state, browser_token)
        if answer.error:
            code: FailureCode = "denied" if answer.error == "access_denied" else "failed"
            raise SignInFailed(code, f"the provider answered {answer.error[:MAX_ERROR_CHARS]!r}")
        caller = await self._provider.identify(attempt, answer)
        # Always a new token: one that somebody has put into the browser before never becomes a session.
        return await self._sessions.open_for(caller, self._provider.rights)

    async def _take_attempt(self, state: str, browser_token: str) -> SignInAttempt:
        """Return the attempt that an answer belongs to, and delete it: an answer counts once, at one replica."""
        digest = hash_key(state)
        # Anybody can make up a state, and locks are few: one is taken only for an attempt that exists.
        await self._read_attempt(digest)
        async with self._store.lock(ATTEMPT, digest):
            attempt = await self._read_attempt(digest)
            # Without this, somebody could send their own answer to others, who would be signed in as them.
            if not browser_token or not compare_digest(attempt.browser_hash, hash_key(browser_token)):
                raise SignInFailed("expired", "the answer came from another browser than the one that began to sign in")
            await self._store.delete_token(ATTEMPT, digest)
            return attempt

    async def _read_attempt(self, digest: str) -> SignInAttempt:
        stored = await self._store.read_token(ATTEMPT, digest)
        if stored is None or stored.expires_at <= self._clock.now():
            raise SignInFailed("expired", "the answer belongs to no open sign-in: it was used, is too old or forged")
        return msgspec.json.decode(stored.body, type=SignInAttempt)


def _create_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)
