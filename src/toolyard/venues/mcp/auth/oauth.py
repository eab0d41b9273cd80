"""Tokens for servers that want one, by the SDK's own client: it finds the authorization server, asks, and renews.

A link never waits for a person: where only a person can go on, it is signed out, and `_sign_in` is how one comes back.
A token of one caller is never another one's, and none is ever logged.
"""

import time
from collections.abc import AsyncGenerator
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

from toolyard.core.mcp_servers import ServerSpec
from toolyard.venues.mcp.auth.grants import Grant, Json, Keeper
from toolyard.venues.mcp.dispatcher import sent_now

LONGEST_WORD = 300
MOST_WANTED = 50
"""Scopes that a server asked for, one time after the other."""
UNAUTHORIZED, FORBIDDEN, TOO_MANY = 401, 403, 429
M = TypeVar("M", bound=BaseModel)


class SignedOut(OAuthFlowError):
    """Only a person can go on from here."""


class Memory:
    """Where the SDK keeps what it was given, for as long as that lasts."""

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


class _Kept(Memory):
    """The grant of a person: a renewed token is kept in its place, and so is the means to renew it once more."""

    def __init__(self, grant: Grant, keeper: Keeper) -> None:
        super().__init__()
        self._grant = grant
        self._keeper = keeper
        self.tokens = OAuthToken.model_validate(grant.token)
        self.client = OAuthClientInformationFull.model_validate(grant.client)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        if tokens.refresh_token is None and self.tokens is not None:
            tokens.refresh_token = self.tokens.refresh_token
        self.tokens = tokens
        expires_at = None if tokens.expires_in is None else time.time() + tokens.expires_in
        await self._save(replace(self._grant, token=dumped(tokens), expires_at=expires_at))

    async def want(self, scope: str) -> None:
        wanted = dict.fromkeys([*self._grant.wanted.split(), *scope.split()])
        await self._save(replace(self._grant, wanted=" ".join([*wanted][-MOST_WANTED:])))

    async def _save(self, grant: Grant) -> None:
        """In place of the one that this is made of: whoever signed in anew meanwhile, or out, is left with that."""
        before, self._grant = self._grant, grant
        kept = await self._keeper.load()
        if kept is not None and kept.token == before.token and kept != grant:
            await self._keeper.save(grant)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Of another authorization server than the person chose: it is not taken over here."""


class _Renewing(OAuthClientProvider):
    """With what a person got by signing in. Where a person would be asked again, it renews, or is signed out."""

    def __init__(self, grant: Grant, keeper: Keeper) -> None:
        self._kept = _Kept(grant, keeper)
        self._grant = grant
        self._keeper = keeper
        super().__init__(grant.url, client_metadata("http://127.0.0.1/callback"), self._kept)
        self.context.token_expiry_time = grant.expires_at
        self.context.oauth_metadata = loaded(OAuthMetadata, grant.metadata)
        self.context.protected_resource_metadata = loaded(ProtectedResourceMetadata, grant.resource)

    async def _perform_authorization(self) -> httpx2.Request:
        tokens, found = self._kept.tokens, self.context.oauth_metadata
        same = self.context.client_info is self._kept.client  # the SDK lets go of it if the server names another issuer
        if not same or tokens is None or not tokens.refresh_token or not issued_by(found, self._grant.issuer):
            raise SignedOut("the token is not taken any more")
        self.context.current_tokens = tokens
        return await self._refresh_token()

    async def want(self, scope: str) -> None:
        """More than the token is good for: that only a person can grant."""
        await self._kept.want(scope)

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        status = response.status_code
        if httpx2.codes.is_client_error(status) and status != TOO_MANY:
            await self._keeper.forget()
            raise SignedOut("the token cannot be renewed any more")
        await super()._handle_token_response(response)


class Signing(httpx2.Auth):
    """Signs requests. `refused` says why it could not, after one that was not let in.

    The SDK's flow holds all other requests up until the answer to one begins: it is entered only where there is no
    token yet, or the one that there is was refused.
    """

    def __init__(self, provider: OAuthClientProvider | None, advice: str) -> None:
        self._provider = provider
        self._advice = advice
        self.refused = ""
        self.signed_out = False

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        token = self._token()
        if token or self._provider is None:
            if token:
                request.headers["Authorization"] = f"Bearer {token}"
            response = yield request
            if self._provider is None or not _is_refused(response):
                self._came_to(response)
                return
            if isinstance(self._provider, _Renewing) and response.status_code == FORBIDDEN:
                await self._deny(self._provider, extract_scope_from_www_auth(response) or "")
                return
            self._distrust(token)
        assert self._provider is not None
        flow = self._provider.async_auth_flow(request)
        response = httpx2.Response(UNAUTHORIZED)
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            self._came_to(response)
            return
        except SignedOut as error:
            self._note(f"{error}; {self._advice}", signed_out=True)
        except (OAuthFlowError, ValidationError) as error:
            self._note(f"a token for it could not be had: {in_a_line(error)}")
        finally:
            await flow.aclose()
        request.headers.pop("Authorization", None)
        yield request  # what came last is of the authorization server, and for nobody else to read

    def _token(self) -> str:
        context = self._provider.context if self._provider else None
        tokens = context.current_tokens if context is not None and context.is_token_valid() else None
        return tokens.access_token if tokens else ""

    def _distrust(self, token: str) -> None:
        """Have it renewed, unless another request has done so meanwhile."""
        assert self._provider is not None
        tokens = self._provider.context.current_tokens
        if tokens is not None and tokens.access_token == token:
            self._provider.context.token_expiry_time = 1.0

    def _came_to(self, response: httpx2.Response) -> None:
        """Who is not signed in may be refused in one way after the other: only a yes is a yes."""
        if _is_refused(response):
            self._note(self._advice, signed_out=True)
        elif response.is_success:
            self._note("")

    async def _deny(self, provider: _Renewing, scope: str) -> None:
        """The token is good, but not for this request: the session goes on, unless it is one without which none is."""
        await provider.want(scope)
        said = f"this needs more rights than the token has ({scope or 'it does not say which'}); {self._advice}"
        sent = sent_now()
        if sent is not None and sent.is_asked:
            sent.denied = said
        else:
            self._note(said, signed_out=True)

    def _note(self, why: str, *, signed_out: bool = False) -> None:
        self.refused, self.signed_out = why, signed_out
        if why and (sent := sent_now()) is not None:
            sent.trouble, sent.unreached = why, True


async def signing(server: str, spec: ServerSpec, keeper: Keeper) -> Signing:
    """What signs the requests to this server, with what is kept for it."""
    if "authorization" in {name.lower() for name in spec.headers}:
        return Signing(None, "it does not take the header Authorization that is configured for it")
    if spec.oauth is not None and spec.oauth.grant == "client_credentials":
        return Signing(
            ClientCredentialsOAuthProvider(
                spec.url,
                Memory(),
                spec.oauth.client_id,
                spec.oauth.client_secret,
                scope=spec.oauth.scope or None,
                issuer=spec.oauth.issuer,
            ),
            "it does not take the token that it was asked for",
        )
    grant = await keeper.load()
    advice = f"it wants a person to sign in: `toolyard servers login {server}`"
    return Signing(_Renewing(grant, keeper) if grant else None, advice)


def client_metadata(redirect_uri: str) -> OAuthClientMetadata:
    return OAuthClientMetadata.model_validate({"client_name": "Toolyard", "redirect_uris": [redirect_uri]})


def issued_by(metadata: OAuthMetadata | None, issuer: str) -> bool:
    return metadata is not None and issuers_match(str(metadata.issuer), issuer)


def dumped(model: BaseModel | None) -> Json:
    return cast(Json, model.model_dump(mode="json", exclude_none=True)) if model else {}


def loaded(kind: type[M], kept: Json) -> M | None:
    return kind.model_validate(kept) if kept else None


def in_a_line(error: Exception) -> str:
    """What went wrong, without what was sent: further lines of such an error quote it, tokens and all."""
    return str(error).partition("\n")[0][:LONGEST_WORD]


def _is_refused(response: httpx2.Response) -> bool:
    wants = response.headers.get("www-authenticate", "")
    return response.status_code == UNAUTHORIZED or (response.status_code == FORBIDDEN and "insufficient_scope" in wants)
