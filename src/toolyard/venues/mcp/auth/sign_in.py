"""The sign-in of a person to a server: the SDK's authorization-code flow, in two steps.

The first step ends with the page for the person, the second one begins with the parameters that the page sends back.
All that the second one needs is in an `OpenSignIn`, so that another process can take it.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from secrets import token_hex
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_resource_metadata_from_www_auth as _metadata_of
from mcp.client.auth.utils import extract_scope_from_www_auth, union_scopes, validate_authorization_response_iss
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthMetadata,
    ProtectedResourceMetadata,
)
from pydantic import ValidationError

from toolyard.core.errors import Refused, Unavailable
from toolyard.core.settings.network.addresses import is_loopback
from toolyard.core.tools.mcp_servers import ServerSpec, SignInAnswer
from toolyard.venues.mcp.auth.grants import Grant, GrantStore, OpenSignIn
from toolyard.venues.mcp.auth.oauth import (
    UNAUTHORIZED,
    MemoryTokenStorage,
    build_client_metadata,
    dump_model,
    first_error_line,
    is_issued_by,
    load_model,
)
from toolyard.venues.mcp.auth.sealed_records import UndecryptableRecord
from toolyard.venues.mcp.bounded_http import UNCOMPRESSED, BoundedTransport

ANSWER_S = 20.0
PROTOCOL = "2025-11-25"
_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": PROTOCOL}


class _PersonNeeded(Exception):
    """The flow has come to the page for the person; the verifier proves later that the code is meant for us (PKCE)."""

    def __init__(self, verifier: str) -> None:
        super().__init__("a person has to go on")
        self.verifier = verifier


class _SignInProvider(OAuthClientProvider):
    """The SDK's flow, with a configured client of one authorization server, or with dynamic registration."""

    def __init__(self, spec: ServerSpec, storage: MemoryTokenStorage, redirect_uri: str, extra_scope: str):
        async def show_page(url: str) -> None:
            self.page = _require_safe_url(url)
            self.state = parse_qs(urlsplit(url).query)["state"][0]

        async def skip_person() -> AuthorizationCodeResult:
            # The SDK would wait here. What the person brings back is checked by `finish_sign_in`.
            metadata = self.context.oauth_metadata
            return AuthorizationCodeResult(code="-", state=self.state, iss=str(metadata.issuer) if metadata else None)

        self.page = self.state = ""
        self._issuer = spec.oauth.issuer if spec.oauth else ""
        self._scope = spec.oauth.scope if spec.oauth else ""
        self._extra_scope = extra_scope
        super().__init__(spec.url, build_client_metadata(redirect_uri), storage, show_page, skip_person)

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Run the SDK's flow, and add `extra_scope` to the scopes that the server's challenge names.

        The SDK takes its scopes from the challenge of the first 401, so a scope that a server asked for only later,
        with a 403, has to be put there for the sign-in to include it.
        """
        flow = super().async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                if self._extra_scope and response.status_code == UNAUTHORIZED:
                    scope = union_scopes(extract_scope_from_www_auth(response), self._extra_scope)
                    metadata = f'resource_metadata="{url}", ' if (url := _metadata_of(response)) else ""
                    response.headers["www-authenticate"] = f'Bearer {metadata}scope="{scope}"'
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            pass
        finally:
            await flow.aclose()

    def _select_authorization_server(self, advertised: list[str]) -> str:
        return self._issuer if self._issuer in advertised else advertised[0]

    async def _perform_authorization(self) -> httpx2.Request:
        if self._issuer and not is_issued_by(self.context.oauth_metadata, self._issuer):
            raise OAuthFlowError(f"it names another authorization server than {self._issuer}, which is configured")
        if self._scope:
            self.context.client_metadata.scope = union_scopes(self._scope, self._extra_scope)
        _, verifier = await self._perform_authorization_code_grant()
        raise _PersonNeeded(verifier)


class _ExchangeProvider(OAuthClientProvider):
    """Exchanges the code that the person brought back for a token."""

    def __init__(self, sign_in: OpenSignIn, answer: SignInAnswer, storage: MemoryTokenStorage) -> None:
        super().__init__(sign_in.server_url, build_client_metadata(sign_in.redirect_uri), storage)
        self._code, self._verifier = answer.code, sign_in.verifier
        self.context.client_metadata.scope = sign_in.scope or None
        self.context.client_info = storage.client
        self.context.oauth_metadata = load_model(OAuthMetadata, sign_in.metadata)
        self.context.protected_resource_metadata = load_model(ProtectedResourceMetadata, sign_in.resource)
        self.context.protocol_version = PROTOCOL

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        response = yield await self._exchange_token_authorization_code(self._code, self._verifier)
        await self._handle_token_response(response)
        self._add_auth_header(request)
        yield request


async def begin_sign_in(
    spec: ServerSpec, grant_store: GrantStore, redirect_uri: str, headers: Mapping[str, str], *, public_only: bool
) -> OpenSignIn:
    """Find or register a client at the authorization server, and return the page for the person.

    Raise Refused or Unavailable with the reason if that fails.
    """
    storage = MemoryTokenStorage()
    if spec.oauth is not None:
        storage.client = _build_client_info(spec, redirect_uri)
    provider = _SignInProvider(spec, storage, redirect_uri, await _find_extra_scope(grant_store))
    try:
        status = await _send_ping(spec.url, provider, headers, public_only=public_only)
    except _PersonNeeded as needed:
        context = provider.context
        return OpenSignIn(
            server_url=spec.url,
            page=provider.page,
            state=provider.state,
            verifier=needed.verifier,
            redirect_uri=redirect_uri,
            scope=context.client_metadata.scope or "",
            client=dump_model(context.client_info),
            metadata=dump_model(context.oauth_metadata),
            resource=dump_model(context.protected_resource_metadata),
        )
    raise Refused(f"the server did not ask for a sign-in: it answered {status}")


async def finish_sign_in(
    sign_in: OpenSignIn, answer: SignInAnswer, headers: Mapping[str, str], *, public_only: bool
) -> Grant:
    """Return the grant that the person's answer leads to. Raise Refused or Unavailable with the reason if it fails."""
    storage = MemoryTokenStorage()
    storage.client = load_model(OAuthClientInformationFull, sign_in.client)
    provider = _ExchangeProvider(sign_in, answer, storage)
    metadata = provider.context.oauth_metadata
    async with _report_failures():
        validate_authorization_response_iss(answer.iss, metadata)
    await _send_ping(sign_in.server_url, provider, headers, public_only=public_only)
    return Grant(
        url=sign_in.server_url,
        issuer=str(metadata.issuer) if metadata else "",
        token=dump_model(storage.tokens),
        client=sign_in.client,
        metadata=sign_in.metadata,
        resource=sign_in.resource,
        expires_at=provider.context.token_expiry_time,
        sign_in_id=token_hex(8),
    )


async def _find_extra_scope(grant_store: GrantStore) -> str:
    """Return the scopes of the grant so far and those that the server asked for since, if there are such."""
    try:
        grant = await grant_store.load()
    except UndecryptableRecord:
        return ""
    if grant is None or not grant.missing_scopes:
        return ""
    return union_scopes(str(grant.token.get("scope") or ""), grant.missing_scopes) or ""


async def _send_ping(url: str, auth: OAuthClientProvider, headers: Mapping[str, str], *, public_only: bool) -> int:
    """Send a request that makes the flow begin, and return the status of the response."""
    transport = BoundedTransport(public_only=public_only)
    async with (
        _report_failures(),
        httpx2.AsyncClient(auth=auth, timeout=ANSWER_S, transport=transport, headers=UNCOMPRESSED) as client,
        client.stream("POST", url, json=_PING, headers={**headers, **_HEADERS}) as response,
    ):
        return response.status_code


@asynccontextmanager
async def _report_failures() -> AsyncGenerator[None]:
    try:
        yield
    except (OAuthFlowError, ValidationError) as error:
        raise Refused(f"the sign-in failed: {first_error_line(error)}") from None
    except httpx2.HTTPError as error:
        raise Unavailable(f"the sign-in failed: {first_error_line(error) or type(error).__name__}") from None


def _build_client_info(spec: ServerSpec, redirect_uri: str) -> OAuthClientInformationFull:
    assert spec.oauth is not None
    return OAuthClientInformationFull.model_validate(
        {
            "client_id": spec.oauth.client_id,
            "client_secret": spec.oauth.client_secret or None,
            "token_endpoint_auth_method": "client_secret_basic" if spec.oauth.client_secret else "none",
            "redirect_uris": [redirect_uri],
            "issuer": spec.oauth.issuer,
        }
    )


def _require_safe_url(url: str) -> str:
    """Return the address if a browser may open it. The server chose it, so only https and loopback are allowed."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        return url
    raise OAuthFlowError("the page to sign in at is not reached over https")
