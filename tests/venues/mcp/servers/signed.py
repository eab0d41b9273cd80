"""An MCP server over HTTP that wants a person to sign in, and its authorization server. `signed.py PORT`.

A person who opens the page is whoever `/control?user=…` named last. Other words for `/control`: `deny`; the `lifetime`
of a token, in seconds, as it is told; `revoke` every access token; `forget` every refresh token too; have the endpoint
for tokens be `down`, or answer an `odd` one; the `issuer` that the protected resource names instead; the scope that a
call needs `more`, or what else is named by `at`; that only the `modern` way to begin is known.
"""

import secrets
import sys
import time
from typing import Any

import anyio
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PORT = int(sys.argv[1])
BASE = f"http://127.0.0.1:{PORT}"
SCOPE, MORE = "mail", "archive"


class AuthorizationServer:
    """The authorization server: registers any client, and signs in whoever is told."""

    def __init__(self) -> None:
        self.user, self.deny, self.lifetime, self.down, self.odd, self.issuer = "ann", False, 3600, False, False, ""
        self.more, self.at, self.modern = "", "tools/call", False
        self.renewal_count = self.token_checks = 0
        self._clients: dict[str, OAuthClientInformationFull] = {}
        self._codes: dict[str, AuthorizationCode] = {}
        self._refresh: dict[str, RefreshToken] = {}
        self._access: dict[str, AccessToken] = {}

    def control(self, words: dict[str, str]) -> dict[str, object]:
        self.user = words.get("user", self.user)
        self.deny = words.get("deny", "") == "yes"
        self.down = words.get("down", "") == "yes"
        self.odd = words.get("odd", "") == "yes"
        self.issuer = words.get("issuer", "")
        self.more, self.at = words.get("more", ""), words.get("at", "tools/call")
        self.modern = words.get("modern", "") == "yes"
        self.lifetime = int(words.get("lifetime", self.lifetime))
        if "revoke" in words or "forget" in words:
            self._access.clear()
        if "forget" in words:
            self._refresh.clear()
        return {"renewed": self.renewal_count, "clients": len(self._clients), "asked": self.token_checks}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self._clients[client_info.client_id or ""] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if self.deny:
            raise AuthorizeError("access_denied", "ann would rather not")
        code = secrets.token_urlsafe(24)
        self._codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [SCOPE],
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject=self.user,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        if self._codes.pop(authorization_code.code, None) is None:
            raise TokenError("invalid_grant")
        scopes = authorization_code.scopes
        return self._issue_token(client, authorization_code.subject or "", authorization_code.resource, scopes)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self._refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self._refresh[refresh_token.token]
        self.renewal_count += 1
        return self._issue_token(client, refresh_token.subject or "", refresh_token.resource, refresh_token.scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        self.token_checks += 1
        access_token = self._access.get(token)
        return access_token if access_token is not None and (access_token.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self._access.pop(token.token, None)

    def has_scope(self, header: bytes, scope: str) -> bool:
        access_token = self._access.get(header.decode().removeprefix("Bearer "))
        return access_token is not None and scope in access_token.scopes

    def _issue_token(
        self, client: OAuthClientInformationFull, subject: str, resource: str | None, scopes: list[str]
    ) -> OAuthToken:
        access, refresh = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
        about: dict[str, Any] = {
            "client_id": client.client_id or "", "scopes": scopes, "subject": subject, "resource": resource,
        }  # fmt: skip
        self._access[access] = AccessToken(token=access, expires_at=int(time.time() + 3600), **about)
        self._refresh[refresh] = RefreshToken(token=refresh, **about)
        return OAuthToken(
            access_token=access,
            token_type="Bearer",
            expires_in=self.lifetime,
            scope=" ".join(scopes),
            refresh_token=refresh,
        )


authorization_server = AuthorizationServer()
server = MCPServer(
    "signed",
    auth_server_provider=authorization_server,  # pyright: ignore[reportArgumentType] - what we do not offer it need not have
    auth=AuthSettings(
        issuer_url=BASE,  # pyright: ignore[reportArgumentType]
        resource_server_url=f"{BASE}/mcp",  # pyright: ignore[reportArgumentType]
        required_scopes=[SCOPE],
        validate_token_resource=True,
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=[SCOPE, MORE], default_scopes=[SCOPE]
        ),
    ),
)


@server.tool()
def mailbox() -> str:
    """Whose it is."""
    token = get_access_token()
    return f"the mailbox of {token.subject if token else 'nobody'}"


ARRIVED: list[object] = []
ALL_ARRIVED = anyio.Event()


@server.tool()
async def meet(count: int) -> str:
    """Wait until so many calls run at once."""
    ARRIVED.append(None)
    if len(ARRIVED) >= count:
        ALL_ARRIVED.set()
    await ALL_ARRIVED.wait()
    return "met"


@server.custom_route("/control", methods=["GET"])
async def control(request: Request) -> JSONResponse:
    return JSONResponse(authorization_server.control(dict(request.query_params)))


class FaultyApp:
    """What an authorization server does when it is not well, or when the resource has been taken over."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if authorization_server.down and path == "/token":
            await JSONResponse({"error": "server_error"}, status_code=503)(scope, receive, send)
        elif authorization_server.odd and path == "/token":
            await JSONResponse({"access_token": ["access-odd"]})(scope, receive, send)
        elif authorization_server.issuer and path.startswith("/.well-known/oauth-protected-resource"):
            metadata = {"resource": f"{BASE}/mcp", "authorization_servers": [authorization_server.issuer]}
            await JSONResponse(metadata)(scope, receive, send)
        elif (
            (authorization_server.more or authorization_server.modern) and path == "/mcp" and scope["method"] == "POST"
        ):
            await self._check_request(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _check_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        while message.get("more_body"):
            later = await receive()
            message = {**later, "body": message["body"] + later["body"]}
        token, method = dict(scope["headers"]).get(b"authorization", b""), message["body"]
        if authorization_server.modern and b'"initialize"' in method:
            await JSONResponse({"error": "what is that?"}, status_code=400)(scope, receive, send)
        elif (
            authorization_server.more
            and token
            and f'"{authorization_server.at}"'.encode() in method
            and not authorization_server.has_scope(token, authorization_server.more)
        ):
            wants = {"www-authenticate": f'Bearer error="insufficient_scope", scope="{authorization_server.more}"'}
            await JSONResponse({}, status_code=403, headers=wants)(scope, receive, send)
        else:
            messages = iter([message])

            async def receive_again() -> Message:
                return next(messages, None) or await receive()

            await self._app(scope, receive_again, send)


uvicorn.run(FaultyApp(server.streamable_http_app()), port=PORT, log_level="warning")
