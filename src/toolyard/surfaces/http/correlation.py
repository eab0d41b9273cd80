"""Read the head of each request: its client, its headers and its correlation id. Log the request when it ends.

The middleware is plain ASGI: it costs little, and also sees the requests that no route answers.
"""

import logging
import re
from collections.abc import Mapping
from time import perf_counter
from typing import cast

from toolyard.core.ports import Clock
from toolyard.core.settings.network.proxies import TrustedProxies
from toolyard.observability.log_lines import log_line
from toolyard.surfaces.http.errors import ENCODER_KEY, ERROR_KEY
from toolyard.surfaces.http.request_context import (
    CONTEXT_KEY,
    HEAD_KEY,
    AsgiApp,
    Receive,
    RequestContext,
    RequestHead,
    Scope,
    Send,
    get_client_address,
)
from toolyard.surfaces.surface import ErrorBody, PathRules

_CORRELATION_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
"""W3C Trace Context; a later version may add fields. Ids of all zeros and version ff are invalid."""
_log = logging.getLogger("toolyard.http")


class CorrelationMiddleware:
    """Attaches a `RequestHead` to each request, and logs the request when it has ended."""

    def __init__(self, app: AsgiApp, clock: Clock, rules: PathRules, proxies: TrustedProxies | None = None) -> None:
        self._app = app
        self._clock = clock
        self._rules = rules
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        if self._proxies:
            _apply_forwarded(scope, self._proxies)
        started = perf_counter()
        is_websocket = scope["type"] == "websocket"
        headers = _read_headers(scope)
        path = str(scope["path"]).removeprefix(str(scope.get("root_path", "")))
        head = RequestHead(
            path=path,
            headers=headers,
            correlation_id=_read_correlation_id(headers, self._clock),
            status=101 if is_websocket else 0,
        )
        scope[HEAD_KEY] = head
        if encoder := self._rules.find_encoder(path, headers):
            scope[ENCODER_KEY] = encoder
        try:
            await self._app(scope, receive, send)
        finally:
            if is_websocket:
                scope["method"] = "WEBSOCKET"  # for the log; the router takes a scope without a method for a WebSocket
            log_request(scope, head, perf_counter() - started, quiet=path in self._rules.quiet)


def _read_headers(scope: Scope) -> dict[str, str]:
    pairs: list[tuple[bytes, bytes]] = scope["headers"]  # pyright: ignore[reportAssignmentType]
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in pairs}
    if "cookie" in headers:  # HTTP/2 sends each cookie as a header of its own
        headers["cookie"] = "; ".join(value.decode("latin-1") for name, value in pairs if name.lower() == b"cookie")
    return headers


def _apply_forwarded(scope: Scope, proxies: TrustedProxies) -> None:
    """Replace the peer and the scheme of a request by those that a trusted proxy names."""
    peer = cast("tuple[str, int] | None", scope.get("client"))
    if peer is None or not proxies.trusts(peer[0]):
        return
    # The pairs are read here, since a header that is sent several times is a list in the order of the pairs.
    pairs: list[tuple[bytes, bytes]] = scope["headers"]  # pyright: ignore[reportAssignmentType]
    forwarded_for = [value.decode("latin-1") for name, value in pairs if name.lower() == b"x-forwarded-for"]
    scope["client"] = (proxies.find_client(peer[0], forwarded_for), 0 if forwarded_for else peer[1])
    scheme = _read_headers(scope).get("x-forwarded-proto", "").strip().lower()
    if scheme in ("http", "https"):
        scope["scheme"] = scheme if scope["type"] == "http" else scheme.replace("http", "ws")


def _read_correlation_id(headers: dict[str, str], clock: Clock) -> str:
    """Return the caller's correlation id, else the trace id of its W3C trace, else a new id."""
    requested = headers.get("x-correlation-id", "")
    if _CORRELATION_ID.fullmatch(requested):
        return requested
    trace = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
    return trace[1] if trace else clock.new_id("trace")


def log_request(scope: Mapping[str, object], head: RequestHead, duration_s: float, *, quiet: bool) -> None:
    """Log a request, also one that ended before a response was started."""
    level = choose_level(head.status, quiet=quiet)
    if not _log.isEnabledFor(level):
        return
    context, error = scope.get(CONTEXT_KEY), scope.get(ERROR_KEY)
    problem: dict[str, object] = {}
    if isinstance(error, ErrorBody):
        problem = {"error_type": error.error_type, "error": error.error, "details": error.details}
    log_line(
        _log,
        level,
        head.correlation_id,
        "Request finished" if head.status else "Request cut off",
        method=scope["method"],
        path=_mask_token(head.path),
        status=head.status,
        duration_ms=round(duration_s * 1000, 1),
        user=context.caller.user if isinstance(context, RequestContext) else "",
        client=get_client_address(scope),
        **problem,
    )


def _mask_token(path: str) -> str:
    """Return the path without the token of a link to a shared conversation, which opens it."""
    return "/shares/***" if path.startswith("/shares/") else path


def choose_level(status: int, *, quiet: bool) -> int:
    if status == 503 and quiet:  # a probe of a server that drains or waits for its store, which are logged themselves
        return logging.INFO
    if status >= 500:
        return logging.ERROR
    if quiet:
        return logging.DEBUG
    return logging.WARNING if status >= 400 else logging.INFO
