"""Refuse unsafe requests before anybody is authenticated, and guard every response.

A request is refused for a second Host header, for the origin of another site, or for a compressed body. A response gets
the headers that all responses have (CORS among them), and is cancelled when its client stops reading.
"""

import asyncio
import re
from collections.abc import Callable
from typing import cast
from urllib.parse import SplitResult, urlsplit

from toolyard.core.errors import Forbidden, Invalid
from toolyard.core.settings.network.addresses import is_loopback
from toolyard.surfaces.http.errors import CompressedBody, InvalidHead, send_error, send_response
from toolyard.surfaces.http.request_context import (
    AsgiApp,
    Message,
    Receive,
    RequestHead,
    Scope,
    Send,
    get_request_head,
)
from toolyard.surfaces.surface import PathRules

MAX_STALL_S = 60.0
"""A response is cancelled if the client reads nothing for so long; a stream can be resumed by its last event id."""
_EXPOSED_HEADERS = (
    "x-correlation-id",
    "retry-after",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "idempotency-replayed",
    "x-toolyard-replica",
)
_HEADER_NAMES = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+(?:, ?[a-z0-9!#$%&'*+.^_`|~-]+){0,99}", re.IGNORECASE)


class GuardMiddleware:
    """Refuses unsafe requests, and sends the responses to all others with the headers that every response has."""

    def __init__(
        self,
        app: AsgiApp,
        rules: PathRules,
        is_local: Callable[[], bool],
        cors_origins: frozenset[str] = frozenset(),
        get_replica: Callable[[], str] = lambda: "",
    ) -> None:
        """`is_local` returns whether the server needs no key: everybody is an administrator then.

        `get_replica` returns the id that responses name; it changes when the process loses its lease.
        """
        self._app = app
        self._rules = rules
        self._is_local = is_local
        self._origins = cors_origins
        self._get_replica = get_replica
        self._exposed_headers = ", ".join((*_EXPOSED_HEADERS, *rules.response_headers)).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = get_request_head(scope)
        if scope["type"] == "websocket":
            try:
                _guard_host(scope, head.headers)
                if self._is_local():
                    _guard_origin(head.headers, self._origins)
            except Exception as error:
                await send_error(scope, send, error)
                return
            await self._app(scope, receive, send)
            return
        head.is_public = head.path in self._rules.public
        sender = ResponseSender(send, head, self._build_headers(head))
        try:
            await self._respond(scope, receive, sender, head)
        finally:
            sender.close()

    async def _respond(self, scope: Scope, receive: Receive, send: Send, head: RequestHead) -> None:
        try:
            _guard_host(scope, head.headers)
            # Without keys everybody is an administrator, so cross-site requests are refused first, on public paths too.
            if self._is_local():
                _guard_local(scope, head.headers, self._origins)
            # A preflight request carries no credentials: it has to be answered before authentication.
            if scope["method"] == "OPTIONS" and "access-control-request-method" in head.headers:
                if not self._allows_origin(head):
                    raise Forbidden("a page of this origin may not use this server; list it in cors_origins")
                await send_response(send, 204, b"", {})
                return
            _guard_encoding(head.headers)
        except Exception as error:
            await send_error(scope, send, error)
            return
        await self._app(scope, receive, send)

    def _allows_origin(self, head: RequestHead) -> bool:
        """Return whether the page that sent the request may read the response."""
        origin = head.headers.get("origin", "")
        return bool(origin) and (origin in self._origins or "*" in self._origins)

    def _build_headers(self, head: RequestHead) -> list[tuple[bytes, bytes]]:
        """Return the headers that every response carries."""
        added = [(b"x-correlation-id", head.correlation_id.encode()), (b"x-content-type-options", b"nosniff")]
        if replica := self._get_replica():
            added.append((b"x-toolyard-replica", replica.encode()))
        if not self._allows_origin(head):
            return added
        added += [
            (b"access-control-allow-origin", head.headers["origin"].encode()),
            (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
            (b"access-control-expose-headers", self._exposed_headers),
            (b"vary", b"origin, access-control-request-headers"),
        ]
        # Each client library sends headers of its own. None of them gives a page more than its origin does.
        if _HEADER_NAMES.fullmatch(names := head.headers.get("access-control-request-headers", "")):
            added.append((b"access-control-allow-headers", names.encode()))
        return added


class ResponseSender:
    """Sends a response with the headers that every response has, and cancels it when the client stops reading.

    There is one timer per response, not one per chunk: it checks periodically whether the same chunk is still unsent.
    """

    def __init__(
        self, send: Send, head: RequestHead, extra_headers: list[tuple[bytes, bytes]], stalled_s: float = MAX_STALL_S
    ) -> None:
        self._check_every_s = stalled_s / 2
        self._send = send
        self._head = head
        self._extra_headers = extra_headers
        self._sent = 0
        self._last_checked = -1
        """The number of the chunk that was being sent at the last check; -1 if none was."""
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._check_every_s, self._check_stalled)
        self._sending = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._head.status = cast(int, message["status"])
            headers = [*cast("list[tuple[bytes, bytes]]", message.get("headers", ())), *self._extra_headers]
            # What a key or a session opens must not be kept by the browser or a proxy, beyond the end of either.
            if not self._head.is_public and not any(name.lower() == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            message["headers"] = headers
        self._sending = True
        await self._send(message)
        self._sending = False
        self._sent += 1

    def close(self) -> None:
        self._timer.cancel()

    def _check_stalled(self) -> None:
        # Two checks in a row saw the same chunk, so it has waited for at least half of the allowed time. Cancelling the
        # task runs the route's cleanup: a reader detaches, and a run goes on without its stream.
        if self._sending and self._last_checked == self._sent and self._task is not None:
            self._task.cancel()
            return
        self._last_checked = self._sent if self._sending else -1
        self._timer = self._loop.call_later(self._check_every_s, self._check_stalled)


def _guard_host(scope: Scope, headers: dict[str, str]) -> None:
    """Refuse a request with two hosts: a proxy in front may have checked the other one."""
    pairs: list[tuple[bytes, bytes]] = scope["headers"]  # pyright: ignore[reportAssignmentType]
    # Few requests have a header twice: only they are searched.
    if len(pairs) != len(headers) and sum(name.lower() == b"host" for name, _ in pairs) > 1:
        raise InvalidHead("a request has one Host header: this one has several")


def _guard_encoding(headers: dict[str, str]) -> None:
    """Refuse a compressed body: it has to be sent as it is."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity") and _has_body(headers):
        raise CompressedBody("this server takes no compressed bodies: send the body without Content-Encoding")


def _has_body(headers: dict[str, str]) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _guard_local(scope: Scope, headers: dict[str, str], origins: frozenset[str]) -> None:
    """Refuse what a web site could make a browser send to a server that needs no key."""
    _guard_origin(headers, origins)
    # A browser sends plain forms across origins without a preflight request, but never these kinds.
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    is_preflighted = kind in ("application/json", "application/octet-stream")
    if scope["method"] in ("POST", "PUT", "PATCH", "DELETE") and _has_body(headers) and not is_preflighted:
        raise Invalid("send the body as application/json", {"field": "content-type"})


def _guard_origin(headers: dict[str, str], origins: frozenset[str]) -> None:
    """Refuse a request or a WebSocket that a page of another origin has opened."""
    # A site can point its own name at 127.0.0.1 (DNS rebinding); the Host header then still has that name.
    if not is_loopback(_split_url(f"//{headers.get('host', '')}").hostname or ""):
        raise Forbidden("without a key this server answers only to a loopback Host; add a key with `toolyard keys add`")
    origin = headers.get("origin")
    if origin is not None and origin not in origins and _split_url(origin).netloc != headers.get("host"):
        raise Forbidden("a page of another origin may not use this server; list it in cors_origins, and add a key")


def _split_url(address: str) -> SplitResult:
    """Return the parts of a URL, all empty for text that is not a URL, such as `http://[`."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")
