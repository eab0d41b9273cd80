"""The caller and the correlation id of a request, which the middleware attaches before the route runs."""

from collections.abc import Mapping

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
