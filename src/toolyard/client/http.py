"""HTTP requests and event streams to a Toolyard server, for `AppClient` and the command line.

Whoever uses the client decides what to send and when to retry.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from io import BytesIO
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from toolyard.client.sse import read_events
from toolyard.core.errors import (
    Forbidden,
    Invalid,
    Misconfigured,
    NotFound,
    RateLimited,
    Refused,
    ToolyardError,
    Unauthenticated,
    Unavailable,
)

CONNECT_S = 10.0
SILENCE_S = 60.0
"""A connection without any data for so long counts as lost: the server sends a heartbeat in streams every 15 s."""
REQUEST_TIMEOUT = 408
EVENT_STREAM: Mapping[str, str] = {"accept": "text/event-stream"}
_ERROR_TYPES: Mapping[int, type[ToolyardError]] = {403: Forbidden, 404: NotFound, 409: Refused}
T = TypeVar("T")


class ConnectionLost(Unavailable):
    """The connection broke, or the server is about to stop. The server may or may not have taken the request."""


class RequestRejected(ToolyardError):
    """The request is too large or cannot be parsed, so sending it again does not help."""

    def __init__(self, message: str, error_type: str) -> None:
        super().__init__(message)
        self.error_type = error_type


class _ProblemBody(msgspec.Struct):
    error: str = ""
    details: dict[str, object] = {}


class ServerClient:
    """Sends requests to one server. It opens its connections with the first request; `close` closes them."""

    def __init__(
        self, url: str, key: str = "", headers: Mapping[str, str] = {}, *, keep_alive: bool = True, key_hint: str = ""
    ) -> None:
        """`keep_alive` is for clients that send often; `key_hint` is added to the error for a missing or wrong key."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Misconfigured(f"{url!r} is not the address of a server: write http://127.0.0.1:8080")
        if not key.isascii() or not key.isprintable():
            raise Misconfigured("the key contains characters that no key has")
        self.url = url.rstrip("/")
        self._headers = {**headers, **({"authorization": f"Bearer {key}"} if key else {})}
        self._keep_alive = keep_alive
        self._key_hint = key_hint
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(self, method: str, path: str, kind: type[T], body: object = None) -> T:
        """Send a request and return the decoded answer. Raise ToolyardError with the server's error text."""
        async with self._send(method, path, body, {}) as response:
            content = await response.read()
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.DecodeError:
            raise ConnectionLost(
                f"the response from {self.url} is not from a Toolyard server of this version;  "
                "a proxy in front of it may have answered"
            ) from None

    async def start_run(self, path: str, body: object) -> None:
        """Start a run, and close its stream at once: a run continues when no client reads it."""
        async with self._send("POST", path, body, {**EVENT_STREAM, "prefer": "respond-async"}):
            pass

    async def stream_events(
        self, method: str, path: str, body: object = None, *, after: str = "", headers: Mapping[str, str] = {}
    ) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield the last event id and the data of each event, from the event after the id `after`.

        Raise ConnectionLost if the stream breaks, or another ToolyardError if the request is refused.
        """
        resume = {"last-event-id": after} if after else {}
        async with (
            self._send(method, path, body, {**EVENT_STREAM, **resume, **headers}) as response,
            aclosing(read_events(response.content)) as events,
        ):
            async for event in events:
                yield event

    @asynccontextmanager
    async def _send(
        self, method: str, path: str, body: object, headers: Mapping[str, str]
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        session = self._session = self._session or self._open_session()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
        data = None if body is None else BytesIO(msgspec.json.encode(body))  # a file object: aiohttp sends it in chunks
        content_type = {"content-type": "application/json"} if data is not None else {}
        try:
            async with session.request(
                method, f"{self.url}{path}", data=data, headers={**content_type, **headers}, timeout=timeout
            ) as response:
                if response.status >= 400:
                    raise self._build_error(response, await response.read())
                yield response
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise ConnectionLost(f"no server answers at {self.url}: {str(error) or type(error).__name__}") from None

    def _open_session(self) -> aiohttp.ClientSession:
        # A client that sends once an hour keeps no connection: the server would have closed its end by then.
        connector = aiohttp.TCPConnector(force_close=not self._keep_alive)
        return aiohttp.ClientSession(connector=connector, headers=self._headers)

    def _build_error(self, response: aiohttp.ClientResponse, body: bytes) -> ToolyardError:
        try:
            problem = msgspec.json.decode(body, type=_ProblemBody)
        except msgspec.DecodeError:
            problem = _ProblemBody()
        message = problem.error or f"the server answered {response.status}"
        match response.status:
            case 400:
                return RequestRejected(message, "validation_error")
            case 401:
                return Unauthenticated(f"{message}{self._key_hint}")
            case 413:
                return RequestRejected(message, "too_large")
            case 422:
                return Invalid(message, problem.details)
            case 429:
                after = response.headers.get("retry-after", "")
                seconds = max(1.0, float(after) if after.isdigit() else 1.0)
                return RateLimited(message, retry_after_s=seconds, per_minute=0)
            case status if status >= 500 or status == REQUEST_TIMEOUT:
                return ConnectionLost(message)
            case status:
                return _ERROR_TYPES.get(status, ToolyardError)(message)
