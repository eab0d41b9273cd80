"""The sign-in of a person to a server: the SDK's authorization-code flow, from discovery to the stored grant.

The flow shows an address and waits for an answer; `PendingSignIns` connects both with the person.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_resource_metadata_from_www_auth as _metadata_of
from mcp.client.auth.utils import extract_scope_from_www_auth, union_scopes
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull
from pydantic import ValidationError

from toolyard.core.errors import Refused, Unavailable
from toolyard.core.loopback import is_loopback
from toolyard.core.mcp_servers import ServerSpec, SignInAnswer
from toolyard.venues.mcp.auth.grants import Grant, GrantStore
from toolyard.venues.mcp.auth.oauth import (
    UNAUTHORIZED,
    MemoryTokenStorage,
    build_client_metadata,
    dump_model,
    first_error_line,
    is_issued_by,
)
from toolyard.venues.mcp.bounded_http import UNCOMPRESSED, BoundedTransport

ANSWER_S = 20.0
PROTOCOL = "2025-11-25"
_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": PROTOCOL}
ShowUrl = Callable[[str], None]


class _SignInProvider(OAuthClientProvider):
    """The SDK's flow, with a configured client of one authorization server, or with dynamic registration."""

    def __init__(
        self,
        spec: ServerSpec,
        storage: MemoryTokenStorage,
        redirect_uri: str,
        show: ShowUrl,
        answer: Awaitable[SignInAnswer],
        extra_scope: str,
    ):
        async def show_page(url: str) -> None:
            show(_require_safe_url(url))

        async def wait_for_answer() -> AuthorizationCodeResult:
            sign_in_answer = await answer
            return AuthorizationCodeResult(code=sign_in_answer.code, state=sign_in_answer.state, iss=sign_in_answer.iss)

        self._issuer = spec.oauth.issuer if spec.oauth else ""
        self._scope = spec.oauth.scope if spec.oauth else ""
        self._extra_scope = extra_scope
        super().__init__(spec.url, build_client_metadata(redirect_uri), storage, show_page, wait_for_answer)

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
        return await super()._perform_authorization()


async def sign_in(
    spec: ServerSpec,
    grant_store: GrantStore,
    redirect_uri: str,
    show: ShowUrl,
    answer: Awaitable[SignInAnswer],
    headers: Mapping[str, str],
) -> None:
    """Sign a person in and store the grant. Raise Refused or Unavailable with the reason if that fails."""
    memory = MemoryTokenStorage()
    if spec.oauth is not None:
        memory.client = _build_client_info(spec, redirect_uri)
    before = await grant_store.load()
    extra_scope = union_scopes(str(before.token.get("scope") or ""), before.wanted) if before and before.wanted else ""
    provider = _SignInProvider(spec, memory, redirect_uri, show, answer, extra_scope or "")
    try:
        async with (
            httpx2.AsyncClient(
                auth=provider, timeout=ANSWER_S, transport=BoundedTransport(), headers=UNCOMPRESSED
            ) as client,
            client.stream("POST", spec.url, json=_PING, headers={**headers, **_HEADERS}) as response,
        ):
            status = response.status_code
    except (OAuthFlowError, ValidationError) as error:
        raise Refused(f"the sign-in failed: {first_error_line(error)}") from None
    except httpx2.HTTPError as error:
        raise Unavailable(f"the sign-in failed: {first_error_line(error) or type(error).__name__}") from None
    if memory.tokens is None:
        raise Refused(f"the server did not ask for a sign-in: it answered {status}")
    metadata = provider.context.oauth_metadata
    await grant_store.save(
        Grant(
            url=spec.url,
            issuer=str(metadata.issuer) if metadata else "",
            token=dump_model(memory.tokens),
            client=dump_model(memory.client),
            metadata=dump_model(metadata),
            resource=dump_model(provider.context.protected_resource_metadata),
            expires_at=provider.context.token_expiry_time,
        )
    )


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
