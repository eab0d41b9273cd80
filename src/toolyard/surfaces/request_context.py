"""What is known of a request before its route is: who comes, and under which correlation id."""

from collections.abc import Mapping

from litestar import Request
from litestar.datastructures import State
from msgspec import Struct

from toolyard.core.caller import Caller

CONTEXT_KEY = "toolyard.context"

HttpRequest = Request[object, object, State]


class RequestContext(Struct, frozen=True, kw_only=True):
    caller: Caller
    correlation_id: str


def get_request_context(scope: Mapping[str, object]) -> RequestContext:
    context = scope.get(CONTEXT_KEY)
    assert isinstance(context, RequestContext), "a request came past the door"
    return context
