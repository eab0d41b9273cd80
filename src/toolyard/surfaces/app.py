"""Build the ASGI application: all routes, the OpenAPI document, and the middleware around them."""

import html
from collections.abc import Sequence
from importlib.metadata import version
from typing import cast

from litestar import Litestar, get
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from msgspec import Struct

from toolyard.core.ports import Servers
from toolyard.core.providers import ProviderCard
from toolyard.engine.authentication import Authenticator
from toolyard.engine.service import Service
from toolyard.surfaces.app_chat import routes as app_conversation
from toolyard.surfaces.catalog import me, models, providers, tools
from toolyard.surfaces.conversations import calls as conversation_calls
from toolyard.surfaces.conversations import context as conversation_context
from toolyard.surfaces.conversations import conversations, direct_calls, tool_events
from toolyard.surfaces.conversations import messages as conversation_messages
from toolyard.surfaces.conversations import runs as conversation_runs
from toolyard.surfaces.conversations import tools as conversation_tools
from toolyard.surfaces.errors import handle_error
from toolyard.surfaces.mcp import http as mcp
from toolyard.surfaces.middleware import AsgiApp, AuthMiddleware
from toolyard.surfaces.openapi import ERRORS
from toolyard.surfaces.operators import keys, metrics, readiness, runs, server_changes, server_sign_ins, traces
from toolyard.surfaces.operators import servers as server_routes
from toolyard.surfaces.page import routes as page
from toolyard.surfaces.request_body import BodyRequest
from toolyard.surfaces.request_context import HttpRequest
from toolyard.surfaces.respond import routes as respond

MAX_BODY_BYTES = 8 * 1024 * 1024


class Health(Struct, kw_only=True):
    status: str
    version: str


@get("/healthz", responses={status: ERRORS[status] for status in (403, 405)}, tags=["server"])
async def healthz() -> Health:
    """Return 200 if the server answers. Needs no key."""
    return Health(status="ok", version=version("toolyard"))


@get("/openapi.json", include_in_schema=False, sync_to_thread=False)
def openapi(request: HttpRequest) -> dict[str, object]:
    return get_openapi_document(request.app)


@get("/docs", include_in_schema=False, media_type="text/html", sync_to_thread=False)
def docs(request: HttpRequest) -> str:
    """Return the API as a plain HTML page without scripts, styles or other files."""
    paths = cast(dict[str, dict[str, dict[str, str]]], get_openapi_document(request.app)["paths"])
    rows = [
        f"<tr><td><code>{method.upper()}</code></td><td><code>{html.escape(path)}</code></td>"
        f"<td>{html.escape(about.get('description', ''))}</td></tr>"
        for path, methods in sorted(paths.items())
        for method, about in methods.items()
    ]
    return DOCS_PAGE.format(rows="\n".join(rows))


def get_openapi_document(app: Litestar) -> dict[str, object]:
    """Return the OpenAPI document. It is built once: that is slow, and the route needs no key."""
    if "description" not in app.state:
        app.state["description"] = app.openapi_schema.to_schema()
    return cast(dict[str, object], app.state["description"])


def asgi(
    service: Service,
    access: Authenticator,
    servers: Servers,
    cors_origins: frozenset[str] = frozenset(),
    provider_cards: Sequence[ProviderCard] = (),
) -> AuthMiddleware:
    """Return the application for these services."""
    app = Litestar(
        [
            *(healthz, openapi, docs),
            *readiness.routes(service),
            *respond.routes(service, servers),
            *conversations.routes(service),
            *conversation_messages.routes(service),
            *conversation_context.routes(service),
            *conversation_tools.routes(service),
            *conversation_runs.routes(service),
            *tool_events.routes(service),
            *conversation_calls.routes(service),
            *direct_calls.routes(service),
            *tools.routes(service),
            *app_conversation.routes(service, access),
            *traces.routes(service),
            *runs.routes(service),
            *metrics.routes(service),
            *keys.routes(access),
            *me.routes(service, access),
            *models.routes(service),
            *page.routes(),
            *providers.routes(provider_cards),
            *server_routes.routes(service, servers),
            *server_changes.routes(servers),
            *server_sign_ins.routes(servers),
            *mcp.routes(service),
        ],
        exception_handlers={Exception: handle_error},
        openapi_config=OpenAPIConfig(
            title="Toolyard",
            version=version("toolyard"),
            use_handler_docstrings=True,
            render_plugins=[JsonRenderPlugin()],
            path="/-",
        ),
        request_class=BodyRequest,
        request_max_body_size=MAX_BODY_BYTES,
        logging_config=None,
        debug=False,
    )
    return AuthMiddleware(cast(AsgiApp, app), access, service.clock, cors_origins)


DOCS_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Toolyard API</title>
<h1>Toolyard API</h1>
<p>The whole description, for machines and generators: <a href="openapi.json">openapi.json</a>.</p>
<table border="1" cellpadding="6" style="border-collapse: collapse">
<tr><th>method</th><th>path</th><th>what it does</th></tr>
{rows}
</table></html>
"""
