"""Build the ASGI application: the routes of all surfaces, the OpenAPI document, and the middleware around them."""

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import cast

from litestar import Litestar
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin

from toolyard.core.ports import Servers
from toolyard.core.settings.limits import DEFAULT_SOCKET_LIMITS, SocketLimits
from toolyard.core.settings.providers import ProviderCard
from toolyard.core.settings.trusted_proxies import TrustedProxies
from toolyard.core.store import SharedKeyValue
from toolyard.core.tools.mcp_servers import AddServers
from toolyard.engine.access.authentication import Authenticator
from toolyard.engine.access.provider_sign_in import ProviderSignIns
from toolyard.engine.access.sessions import Sessions
from toolyard.engine.service import Service
from toolyard.surfaces.ag_ui import routes as ag_ui
from toolyard.surfaces.ai_sdk import routes as ai_sdk
from toolyard.surfaces.app_chat import routes as app_chat
from toolyard.surfaces.catalog import routes as catalog
from toolyard.surfaces.conversations import routes as conversations
from toolyard.surfaces.http.errors import MAX_BODY_BYTES, handle_error
from toolyard.surfaces.http.middleware import AsgiApp, AuthMiddleware
from toolyard.surfaces.http.refusals import record_refusal
from toolyard.surfaces.http.request_body import BodyRequest
from toolyard.surfaces.mcp import http as mcp
from toolyard.surfaces.openai import routes as openai
from toolyard.surfaces.operators import routes as operators
from toolyard.surfaces.page import routes as page
from toolyard.surfaces.respond import routes as respond
from toolyard.surfaces.server_info import routes as server_info
from toolyard.surfaces.surface import Backend, PathRules, Surface

SURFACES: Sequence[Surface] = (
    server_info.SURFACE,
    respond.SURFACE,
    conversations.SURFACE,
    app_chat.SURFACE,
    openai.SURFACE,
    ai_sdk.SURFACE,
    ag_ui.SURFACE,
    catalog.SURFACE,
    operators.SURFACE,
    page.SURFACE,
    mcp.SURFACE,
)


def asgi(
    service: Service,
    access: Authenticator,
    sessions: Sessions,
    servers: Servers,
    records: SharedKeyValue,
    cors_origins: frozenset[str] = frozenset(),
    provider_cards: Sequence[ProviderCard] = (),
    surfaces: Sequence[Surface] = SURFACES,
    approval_hold_s: float = 0.0,
    leave_s: float = 0.0,
    socket_limits: SocketLimits = DEFAULT_SOCKET_LIMITS,
    proxies: TrustedProxies | None = None,
    add_servers: Callable[[], AddServers] = lambda: "all",
    trust_added_servers: bool = False,
    provider_sign_ins: ProviderSignIns | None = None,
) -> AuthMiddleware:
    """Return the application for these services."""
    backend = Backend(
        service=service,
        access=access,
        sessions=sessions,
        servers=servers,
        records=records,
        provider_cards=provider_cards,
        approval_hold_s=approval_hold_s,
        leave_s=leave_s,
        socket_limits=socket_limits,
        add_servers=add_servers,
        trust_added_servers=trust_added_servers,
        provider_sign_ins=provider_sign_ins,
    )
    app = Litestar(
        [route for surface in surfaces for route in surface.routes(backend)],
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
    return AuthMiddleware(
        cast(AsgiApp, app),
        access,
        sessions,
        service.clock,
        PathRules.collect(surfaces),
        cors_origins,
        lambda: service.replica,
        socket_limits,
        proxies,
        service.failed_sign_ins.count,
        service.metrics.count_unauthenticated,
        service.refused_attempts.count,
    )
