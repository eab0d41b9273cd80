"""The door of the server, before any route: correlation id, who comes, and whom not to let in.

Plain ASGI, so that it costs little and holds for every answer, also for those that no route gives.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from ipaddress import ip_address
from time import perf_counter
from typing import cast
from urllib.parse import SplitResult, urlsplit

import msgspec

from toolyard.core.caller import Caller
from toolyard.core.errors import Forbidden, Invalid
from toolyard.core.ports import Mint
from toolyard.engine.authentication import Access
from toolyard.surfaces.errors import ERROR, error_body
from toolyard.surfaces.request_context import VISIT, Visit
from toolyard.surfaces.request_log import log_request

Message = MutableMapping[str, object]
Scope = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/openapi.json", "/docs"})
OPEN_FOLDER = "/assets/"
"""The files of the page: they say nothing about anybody."""
NOBODY = Caller(user="")
"""Whoever asks for what is open to all: it is not looked at, and could do nothing."""
STALLED_S = 60.0
"""A client that takes nothing for so long is cut off; it may come back with its last event's id."""
_EXPOSED = b"x-correlation-id, retry-after, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, mcp-session-id"
_ALLOWED = (
    b"authorization, content-type, x-api-key, x-correlation-id, x-division, last-event-id, "
    b"mcp-protocol-version, mcp-session-id, mcp-method, mcp-name"
)
_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
"""As W3C writes it; a later version may add fields. Zeros and version ff are no trace."""


class Door:
    def __init__(self, app: App, access: Access, mint: Mint, cors_origins: frozenset[str] = frozenset()) -> None:
        self._app = app
        self._access = access
        self._mint = mint
        self._origins = cors_origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = perf_counter()
        headers = _headers(scope)
        correlation_id = _correlation_id(headers, self._mint)
        path = str(scope["path"]).removeprefix(str(scope.get("root_path", "")))
        sender = _Sender(send, self._added(correlation_id, headers))
        try:
            await self._respond(scope, receive, sender, path, headers, correlation_id)
        finally:
            sender.close()
            log_request(scope, path, correlation_id, sender.status, perf_counter() - started)

    async def _respond(
        self,
        scope: Scope,
        receive: Receive,
        send: "_Sender",
        path: str,
        headers: dict[str, str],
        correlation_id: str,
    ) -> None:
        try:
            if self._access.local:
                _guard_local(scope, headers, self._origins)
            if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                if b"access-control-allow-origin" not in dict(send.added):
                    raise Forbidden("a page of this origin may not use this server; list it in cors_origins")
                await _answer(send, 204, b"", {})
                return
            open_to_all = path in OPEN_PATHS or path.startswith(OPEN_FOLDER)
            caller = NOBODY if open_to_all else self._access.caller(headers)
        except Exception as error:
            status, body, more = error_body(error, correlation_id)
            scope[ERROR] = body
            await _answer(send, status, msgspec.json.encode(body), more)
            return
        scope[VISIT] = Visit(caller=caller, correlation_id=correlation_id)
        await self._app(scope, receive, send)

    def _added(self, correlation_id: str, headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
        """The headers that every answer carries."""
        added = [(b"x-correlation-id", correlation_id.encode()), (b"x-content-type-options", b"nosniff")]
        origin = headers.get("origin", "")
        if origin not in self._origins and not (origin and "*" in self._origins):
            return added
        return [
            *added,
            (b"access-control-allow-origin", origin.encode()),
            (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
            (b"access-control-allow-headers", _ALLOWED),
            (b"access-control-expose-headers", _EXPOSED),
            (b"vary", b"origin"),
        ]


class _Sender:
    """Sends what a route answers, with the headers of every answer; cuts off a client that takes nothing for too long.

    One timer an answer, not one a chunk: it looks now and then whether the same chunk still waits.
    """

    def __init__(self, send: Send, added: list[tuple[bytes, bytes]], stalled_s: float = STALLED_S) -> None:
        self._look_every_s = stalled_s / 2
        self._send = send
        self.added = added
        self.status = 0
        """Of the answer, once it has begun."""
        self._sent = 0
        self._waiting = -1
        """The number of the chunk that was on its way when the timer looked last."""
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._look_every_s, self._look)
        self._under_way = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = cast(int, message["status"])
            message["headers"] = [*message.get("headers", ()), *self.added]  # pyright: ignore[reportGeneralTypeIssues]
        self._under_way = True
        await self._send(message)
        self._under_way = False
        self._sent += 1

    def close(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        if self._under_way and self._waiting == self._sent and self._task is not None:
            self._task.cancel()
            return
        self._waiting = self._sent if self._under_way else -1
        self._timer = self._loop.call_later(self._look_every_s, self._look)


def _headers(scope: Scope) -> dict[str, str]:
    pairs: list[tuple[bytes, bytes]] = scope["headers"]  # pyright: ignore[reportAssignmentType]
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in pairs}


def _correlation_id(headers: dict[str, str], mint: Mint) -> str:
    given = headers.get("x-correlation-id", "")
    if _ID.fullmatch(given):
        return given
    trace = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
    return trace[1] if trace else mint.id("trace")


def _guard_local(scope: Scope, headers: dict[str, str], origins: frozenset[str]) -> None:
    """No web site may drive a server that asks nobody for a key."""
    if not _is_loopback(_split(f"//{headers.get('host', '')}").hostname or ""):
        raise Forbidden("without a key this server answers only to a loopback Host; add a key with `toolyard keys add`")
    origin = headers.get("origin")
    if origin is not None and origin not in origins and _split(origin).netloc != headers.get("host"):
        raise Forbidden("a page of another origin may not use this server; list it in cors_origins, and add a key")
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if scope["method"] in ("POST", "PUT", "PATCH", "DELETE") and has_body and kind != "application/json":
        raise Invalid("send the body as application/json", {"field": "content-type"})


def _split(address: str) -> SplitResult:
    """The parts of an address, all empty where it is none, as `http://[` is."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


async def _answer(send: Send, status: int, body: bytes, headers: dict[str, str]) -> None:
    kind = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    more = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": [*kind, *more]})
    await send({"type": "http.response.body", "body": body})
