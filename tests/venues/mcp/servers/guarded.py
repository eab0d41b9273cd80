"""An MCP server over HTTP that wants a token, and the authorization server that gives one. `guarded.py PORT`."""

import base64
import sys
import urllib.parse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

PORT = int(sys.argv[1])
BASE = f"http://127.0.0.1:{PORT}"


class Verifier:
    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id="shop", scopes=["stock"]) if token == "the-token" else None


server = MCPServer(
    "guarded",
    token_verifier=Verifier(),
    auth=AuthSettings(issuer_url=BASE, resource_server_url=f"{BASE}/mcp", required_scopes=["stock"]),  # pyright: ignore[reportArgumentType]
)


@server.tool()
def stock() -> str:
    """How much is left."""
    return "seven"


released = anyio.Event()


@server.tool()
async def wait() -> str:
    """Until it is released."""
    await released.wait()
    return "waited"


@server.tool()
async def release() -> str:
    """Let it go."""
    released.set()
    return "released"


async def metadata(request: Request) -> JSONResponse:
    return JSONResponse(
        {
            "issuer": BASE,
            "authorization_endpoint": f"{BASE}/authorize",
            "token_endpoint": f"{BASE}/token",
            "response_types_supported": ["code"],
            "grant_types_supported": ["client_credentials"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }
    )


async def token(request: Request) -> JSONResponse:
    form = urllib.parse.parse_qs((await request.body()).decode())
    credentials = base64.b64encode(b"shop:s3cret").decode()
    if form["grant_type"] != ["client_credentials"] or request.headers.get("authorization") != f"Basic {credentials}":
        return JSONResponse({"error": "invalid_client"}, status_code=401)
    return JSONResponse({"access_token": "the-token", "token_type": "Bearer", "expires_in": 3600, "scope": "stock"})


mcp_app = server.streamable_http_app(json_response=True)


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None]:
    async with mcp_app.router.lifespan_context(mcp_app):
        yield


routes = [
    Route("/.well-known/oauth-authorization-server", metadata),
    Route("/token", token, methods=["POST"]),
    Mount("/", mcp_app),
]
uvicorn.run(Starlette(routes=routes, lifespan=lifespan), port=PORT, log_level="warning")
