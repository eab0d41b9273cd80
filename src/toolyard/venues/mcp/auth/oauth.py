"""OAuth tokens for servers that require them. The SDK's client discovers the authorization server and renews tokens.

A connection never waits for a person: where only a person can go on, it raises `SignInRequired`, and `sign_in` obtains
a new grant. A token is used for one caller only and is never logged.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager, nullcontext
from typing import TypeVar, cast

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.utils import extract_scope_from_www_auth, issuers_match
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from toolyard.core.errors import StoreDown
from toolyard.core.json_types import Json
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.venues.mcp.auth.grants import Grant, GrantStore
from toolyard.venues.mcp.auth.sealed_records import UndecryptableRecord
from toolyard.venues.mcp.dispatcher import get_current_request

MAX_ERROR_CHARS = 300
MAX_MISSING_SCOPES = 50
"""The most scopes that are remembered of those that a server asked for."""
UNAUTHORIZED, FORBIDDEN, TOO_MANY = 401, 403, 429
M = TypeVar("M", bound=BaseModel)
Flow = AsyncGenerator[httpx2.Request, httpx2.Response]


class SignInRequired(OAuthFlowError):
    """A person has to sign in before the server can be used."""


class MemoryTokenStorage:
    """Token storage for the SDK that lasts as long as this object."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class _GrantTokenStorage(MemoryTokenStorage):
    """Token storage for the SDK that begins with a person's grant and stores each renewed token in its place."""

    def __init__(self, grant: Grant, grant_store: GrantStore) -> None:
        super().__init__()
        self._grant = grant
        self._grant_store = grant_store
        self.tokens = OAuthToken.model_validate(grant.token)
        self.client = OAuthClientInformationFull.model_validate(grant.client)

    @property
    def expires_at(self) -> float | None:
        return self._grant.expires_at

    async def set_tokens(self, tokens: OAuthToken) -> None:
        # A renewal without a new refresh token means that the old one stays valid (RFC 6749, section 6).
        if tokens.refresh_token is None and self.tokens is not None:
            tokens.refresh_token = self.tokens.refresh_token
        self.tokens = tokens
        expires_at = None if tokens.expires_in is None else time.time() + tokens.expires_in
        await self._save(replace(self._grant, token=dump_model(tokens), expires_at=expires_at))

    async def remember_scope(self, scope: str) -> None:
        scopes = dict.fromkeys([*self._grant.missing_scopes.split(), *scope.split()])
        await self._save(replace(self._grant, missing_scopes=" ".join([*scopes][-MAX_MISSING_SCOPES:])))

    async def _save(self, grant: Grant) -> None:
        """Store the grant, unless the stored one is no longer the grant that this one was made from."""
        # A person may have signed in again or out meanwhile, and another session of the same caller may have renewed
        # the token. Writing without the comparison would bring back a grant that was revoked or replaced.
        before, self._grant = self._grant, grant
        stored = await self._grant_store.load()
        if stored is not None and stored.token == before.token and stored != grant:
            await self._grant_store.save(grant)

    async def reload(self) -> bool:
        """Take over the stored grant. Return whether it has another token: another session has renewed it."""
        stored = await self._grant_store.load()
        if stored is None or stored.token == self._grant.token:
            return False
        # A sign-in elsewhere is another grant: this session ends when its own token is refused.
        if (stored.issuer, stored.client) != (self._grant.issuer, self._grant.client):
            return False
        self._grant, self.tokens = stored, OAuthToken.model_validate(stored.token)
        return True

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Ignore a new registration: it would be with another authorization server than the person signed in to."""


class _RenewingProvider(OAuthClientProvider):
    """The SDK's flow with a person's grant. It renews the token, or raises SignInRequired where a person is needed."""

    def __init__(self, grant: Grant, grant_store: GrantStore) -> None:
        self._token_storage = _GrantTokenStorage(grant, grant_store)
        self._grant = grant
        self._grant_store = grant_store
        super().__init__(grant.url, build_client_metadata("http://127.0.0.1/callback"), self._token_storage)
        # As the SDK's flow would do at first. Done here, the first request is sent without the flow and its lock.
        self.context.current_tokens, self.context.client_info = self._token_storage.tokens, self._token_storage.client
        self._initialized = True
        self.context.token_expiry_time = grant.expires_at
        self.context.oauth_metadata = load_model(OAuthMetadata, grant.metadata)
        self.context.protected_resource_metadata = load_model(ProtectedResourceMetadata, grant.resource)

    async def _perform_authorization(self) -> httpx2.Request:
        """Renew the token where the SDK would send a person to a page."""
        # The SDK drops the client's registration if the server now names another issuer. The refresh token must go
        # to nobody but the issuer that the person signed in to.
        tokens, metadata = self._token_storage.tokens, self.context.oauth_metadata
        same_client = self.context.client_info is self._token_storage.client
        same_issuer = is_issued_by(metadata, self._grant.issuer)
        if not same_client or tokens is None or not tokens.refresh_token or not same_issuer:
            raise SignInRequired("the token is not taken any more")
        # Another replica may have renewed the token while this one waited for the lock: its refresh token is spent.
        await self._token_storage.reload()
        self.context.current_tokens = self._token_storage.tokens
        return await self._refresh_token()

    async def remember_scope(self, scope: str) -> None:
        """Remember a scope that the token lacks: only a person can grant it, at the next sign-in."""
        await self._token_storage.remember_scope(scope)

    async def adopt_stored_token(self) -> bool:
        """Use the token that another session of the same grant has renewed. Return whether there is one."""
        # An issuer that rotates refresh tokens refuses the one of this session once another session has spent it, so
        # the stored grant is read before every renewal, and again where the issuer refuses: with another version of
        # this program the lock may not be shared.
        if not await self._token_storage.reload():
            return False
        self.context.current_tokens = self._token_storage.tokens
        self.context.token_expiry_time = self._token_storage.expires_at
        return True

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        """Read a renewed token. Delete the grant if the authorization server rejects it; keep it for other errors."""
        status = response.status_code
        if httpx2.codes.is_client_error(status) and status != TOO_MANY:
            if await self.adopt_stored_token():
                raise OAuthFlowError("another session has just renewed the token; try again")
            await self._grant_store.forget()
            raise SignInRequired("the token cannot be renewed any more")
        await super()._handle_token_response(response)


class RequestAuth(httpx2.Auth):
    """Adds the token to requests. After a request that the server refused, `refusal` says why.

    The SDK's flow holds a lock until the response to its request begins, so that a slow call would delay all others.
    Here the flow only obtains tokens, for one request at a time. The request itself is sent outside of it.
    """

    def __init__(
        self, provider: OAuthClientProvider | None, advice: str, grant_store: GrantStore | None = None
    ) -> None:
        """`grant_store` has the locks of a grant's sessions: an issuer takes each refresh token only once."""
        self._provider = provider
        self._renewal_lock = grant_store.renewal_lock if grant_store else asyncio.Lock()
        self._lock_replicas = grant_store.lock if grant_store else nullcontext
        self._advice = advice
        self.refusal = ""
        self.signed_out = False

    async def async_auth_flow(self, request: httpx2.Request) -> Flow:
        """Yield the request, before it the requests that renew an expired token, and after a refusal both again.

        The second renewal does not take the word of the authorization server alone: it discovers which one to ask.
        """
        response: httpx2.Response | None = None
        if self._add_token(request) or not self._can_refresh():
            response = yield request
            if await self._is_answered(response):
                return
        for is_first in (True, False):
            with self._explain_failure() as failures:
                async with aclosing(self._renew(request, response, is_first=is_first)) as renewal:
                    outgoing = await _advance(renewal)
                    while outgoing is not None:
                        response = yield outgoing
                        if outgoing is request and await self._is_answered(response):
                            return
                        outgoing = await _advance(renewal, response)
            if failures:
                # httpx returns the response to the last request that was yielded. That is one of the authorization
                # server, so the request itself is sent once more, without a token: its refusal becomes the response.
                request.headers.pop("Authorization", None)
                yield request
                return
            response = yield request
            if await self._is_answered(response):
                return
        assert response is not None
        self._record_response(response)

    async def _renew(self, request: httpx2.Request, refusal: httpx2.Response | None, *, is_first: bool) -> Flow:
        """Yield the requests that obtain another token than the request has, and give that to the request.

        `refusal` is the response to the request, or None if it was not sent because its token has expired.
        """
        provider, refused_token = self._provider, _read_token(request)
        assert provider is not None
        async with self._renewal_lock:
            if self._get_token() not in ("", refused_token):  # another request has renewed it meanwhile
                self._add_token(request)
                return
            async with self._lock_replicas(), aclosing(provider.async_auth_flow(request)) as flow:
                await self._take_stored_token(refused_token if is_first else "")
                outgoing = await _advance(flow)
                while outgoing is not None and not (outgoing is request and _read_token(request) != refused_token):
                    if outgoing is request and refusal is not None:
                        outgoing, refusal = await _advance(flow, refusal), None
                    else:
                        outgoing = await _advance(flow, (yield outgoing))

    def _add_token(self, request: httpx2.Request) -> bool:
        """Give the request the token, and return whether there is one that has not expired."""
        token = self._get_token()
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        return bool(token)

    def _can_refresh(self) -> bool:
        return self._provider is not None and self._provider.context.can_refresh_token()

    def _get_token(self) -> str:
        context = self._provider.context if self._provider else None
        tokens = context.current_tokens if context is not None and context.is_token_valid() else None
        return tokens.access_token if tokens else ""

    async def _take_stored_token(self, token: str) -> None:
        """Use the token that another session has stored, or mark this one as expired, so that the flow renews it."""
        if isinstance(self._provider, _RenewingProvider):
            await self._provider.adopt_stored_token()
        # Several requests may be refused with the same token at once. A request that comes here after another one has
        # renewed it finds a different token, and must not renew that one: it would spend the new refresh token too.
        assert self._provider is not None
        tokens = self._provider.context.current_tokens
        if tokens is not None and tokens.access_token == token:
            self._provider.context.token_expiry_time = 1.0

    @contextmanager
    def _explain_failure(self) -> Generator[list[Exception]]:
        """Yield a list that gets the reason if no token can be obtained in the block, and record that reason."""
        failures: list[Exception] = []
        try:
            yield failures
        except SignInRequired as error:
            failures.append(error)
            self._set_refusal(f"{error}; {self._advice}", signed_out=True)
        except (OAuthFlowError, ValidationError, StoreDown) as error:
            failures.append(error)
            self._set_refusal(f"no token could be obtained: {first_error_line(error)}")

    async def _is_answered(self, response: httpx2.Response) -> bool:
        """Return whether no other token would help, and record what the response says about this one."""
        if isinstance(self._provider, _RenewingProvider) and _lacks_scope(response):
            await self._deny(self._provider, extract_scope_from_www_auth(response) or "")
            return True
        if self._provider is None or not _is_refused(response):
            self._record_response(response)
            return True
        return False

    def _record_response(self, response: httpx2.Response) -> None:
        """Set `refusal` after a refusal, clear it after a success; other errors say nothing about the token."""
        if _is_refused(response):
            self._set_refusal(self._advice, signed_out=True)
        elif response.is_success:
            self._set_refusal("")

    async def _deny(self, provider: _RenewingProvider, scope: str) -> None:
        """Record that a valid token lacks a scope. The session goes on, unless the handshake itself needs the scope."""
        await provider.remember_scope(scope)
        reason = f"this needs more rights than the token has ({scope or 'it does not say which'}); {self._advice}"
        sent = get_current_request()
        if sent is not None and sent.is_asked:
            sent.denial_reason = reason
        else:
            self._set_refusal(reason, signed_out=True)

    def _set_refusal(self, why: str, *, signed_out: bool = False) -> None:
        self.refusal, self.signed_out = why, signed_out
        if why and (sent := get_current_request()) is not None:
            sent.transport_error, sent.unreached = why, True


async def build_auth(server: str, spec: ServerSpec, grant_store: GrantStore) -> RequestAuth:
    """Return the authentication for requests to this server, from its configuration or the stored grant."""
    if "authorization" in {name.lower() for name in spec.headers}:
        return RequestAuth(None, "it does not take the header Authorization that is configured for it")
    if spec.oauth is not None and spec.oauth.grant == "client_credentials":
        return RequestAuth(
            ClientCredentialsOAuthProvider(
                spec.url,
                MemoryTokenStorage(),
                spec.oauth.client_id,
                spec.oauth.client_secret,
                scope=spec.oauth.scope or None,
                issuer=spec.oauth.issuer,
            ),
            "it does not take the token that it was asked for",
        )
    advice = f"it wants a person to sign in: `toolyard servers login {server}`"
    try:
        grant = await grant_store.load_for_session()
    except UndecryptableRecord as error:
        return RequestAuth(None, f"{error}: `toolyard servers login {server}`")
    return RequestAuth(_RenewingProvider(grant, grant_store) if grant else None, advice, grant_store)


def build_client_metadata(redirect_uri: str) -> OAuthClientMetadata:
    return OAuthClientMetadata.model_validate({"client_name": "Toolyard", "redirect_uris": [redirect_uri]})


def is_issued_by(metadata: OAuthMetadata | None, issuer: str) -> bool:
    return metadata is not None and issuers_match(str(metadata.issuer), issuer)


def dump_model(model: BaseModel | None) -> Json:
    return cast(Json, model.model_dump(mode="json", exclude_none=True)) if model else {}


def load_model(kind: type[M], raw: Json) -> M | None:
    return kind.model_validate(raw) if raw else None


def first_error_line(error: Exception) -> str:
    """Return the first line of an error: the lines after it quote what was sent, tokens included."""
    return str(error).partition("\n")[0][:MAX_ERROR_CHARS]


def _is_refused(response: httpx2.Response) -> bool:
    return response.status_code == UNAUTHORIZED or _lacks_scope(response)


def _lacks_scope(response: httpx2.Response) -> bool:
    return response.status_code == FORBIDDEN and "insufficient_scope" in response.headers.get("www-authenticate", "")


def _read_token(request: httpx2.Request) -> str:
    return request.headers.get("Authorization", "").removeprefix("Bearer ")


async def _advance(flow: Flow, response: httpx2.Response | None = None) -> httpx2.Request | None:
    """Return the next request of a flow, after the response to its last one; None if the flow has ended."""
    try:
        return await (anext(flow) if response is None else flow.asend(response))
    except StopAsyncIteration:
        return None
