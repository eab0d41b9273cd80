"""The caller and the correlation id of a request, which the middleware attaches before the route runs."""

from collections.abc import Mapping
from typing import cast

from litestar import Request
from litestar.datastructures import State
from msgspec import Struct

from toolyard.core.caller import Caller

CONTEXT_KEY = "toolyard.context"

HttpRequest = Request[object, object, State]


class RequestContext(Struct, frozen=True, kw_only=True):
    """The caller and the correlation id of one request."""

    caller: Caller
    correlation_id: str


def get_request_context(scope: Mapping[str, object]) -> RequestContext:
    context = scope.get(CONTEXT_KEY)
    assert isinstance(context, RequestContext), "a request bypassed AuthMiddleware"
    return context


def get_client_address(scope: Mapping[str, object]) -> str:
    """Return the address of the client, as the middleware took it from a trusted proxy; empty if it is not known."""
    client = cast("tuple[str, int] | None", scope.get("client"))
    return client[0] if client else ""
