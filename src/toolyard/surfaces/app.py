"""Build the ASGI application: the routes of all surfaces, the OpenAPI document, and the middleware around them."""

from functools import cache
from importlib.metadata import version
from typing import cast

from litestar import Litestar
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin

from toolyard.core.settings.network.proxies import TrustedProxies
from toolyard.surfaces.ag_ui import routes as ag_ui
from toolyard.surfaces.ai_sdk import routes as ai_sdk
from toolyard.surfaces.anthropic import routes as anthropic
from toolyard.surfaces.app_chat import routes as app_chat
from toolyard.surfaces.catalog import routes as catalog
from toolyard.surfaces.conversations import routes as conversations
from toolyard.surfaces.http.authentication import AuthenticationMiddleware
from toolyard.surfaces.http.authorization import record_refusal
from toolyard.surfaces.http.correlation import CorrelationMiddleware
from toolyard.surfaces.http.errors import MAX_BODY_BYTES, handle_error
from toolyard.surfaces.http.guard import GuardMiddleware
from toolyard.surfaces.http.request_body import BodyRequest
from toolyard.surfaces.http.request_context import AsgiApp
from toolyard.surfaces.mcp import http as mcp
from toolyard.surfaces.openai import routes as openai
from toolyard.surfaces.operators import routes as operators
from toolyard.surfaces.page import routes as page
from toolyard.surfaces.respond import routes as respond
from toolyard.surfaces.server_info import routes as server_info
from toolyard.surfaces.surface import Backend, PathRules, Surface

SURFACES: tuple[Surface, ...] = (
    server_info.SURFACE,
    respond.SURFACE,
    conversations.SURFACE,
    app_chat.SURFACE,
    anthropic.SURFACE,
    openai.SURFACE,
    ai_sdk.SURFACE,
    ag_ui.SURFACE,
    catalog.SURFACE,
    operators.SURFACE,
    page.SURFACE,
    mcp.SURFACE,
)


def asgi(
    backend: Backend,
    cors_origins: frozenset[str] = frozenset(),
    proxies: TrustedProxies | None = None,
    surfaces: tuple[Surface, ...] = SURFACES,
) -> AsgiApp:
    """Return the application of these surfaces."""
    service, access, rules = backend.service, backend.access, PathRules.collect(surfaces)
    authenticated = AuthenticationMiddleware(build_router(surfaces), backend, rules)
    guarded = GuardMiddleware(authenticated, rules, lambda: access.is_local, cors_origins, lambda: service.replica)
    return CorrelationMiddleware(guarded, service.clock, rules, proxies)


@cache  # Litestar reads the signatures of all handlers, which takes 100 ms; a process may have many backends
def build_router(surfaces: tuple[Surface, ...]) -> AsgiApp:
    app = Litestar(
        [route for surface in surfaces for route in surface.routes],
        exception_handlers={Exception: handle_error},
        after_exception=[record_refusal],
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
    return cast(AsgiApp, app)
