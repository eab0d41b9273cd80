"""What the middlewares attach to a request before its route runs: its head, its caller, and what its route calls."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import cast

from litestar import Request
from litestar.datastructures import State
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.surfaces.surface import Backend

Message = MutableMapping[str, object]
Scope = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

HEAD_KEY = "toolyard.head"
CONTEXT_KEY = "toolyard.context"
BACKEND_KEY = "toolyard.backend"


class HttpRequest(Request[object, object, State]):
    """A request as the routes get it. They are built once for all backends, so the request names its own."""

    @property
    def backend(self) -> Backend:
        return get_backend(self.scope)


class RequestHead(Struct, kw_only=True):
    """What is known of a request before its caller is."""

    path: str
    """Below the path at which the application is mounted."""
    headers: dict[str, str]
    """By lower-case name."""
    correlation_id: str
    status: int
    """The status of the response, 0 until it has started."""
    is_public: bool = False
    """Whether the path needs no credentials."""


class RequestContext(Struct, frozen=True, kw_only=True):
    """The caller and the correlation id of one request."""

    caller: Caller
    correlation_id: str


def get_request_head(scope: Mapping[str, object]) -> RequestHead:
    head = scope.get(HEAD_KEY)
    assert isinstance(head, RequestHead), "a request bypassed CorrelationMiddleware"
    return head


def get_request_context(scope: Mapping[str, object]) -> RequestContext:
    context = scope.get(CONTEXT_KEY)
    assert isinstance(context, RequestContext), "a request bypassed AuthenticationMiddleware"
    return context


def get_backend(scope: Mapping[str, object]) -> Backend:
    backend = scope.get(BACKEND_KEY)
    assert isinstance(backend, Backend), "a request bypassed AuthenticationMiddleware"
    return backend


def get_client_address(scope: Mapping[str, object]) -> str:
    """Return the address of the client, as the middleware took it from a trusted proxy; empty if it is not known."""
    client = cast("tuple[str, int] | None", scope.get("client"))
    return client[0] if client else ""
