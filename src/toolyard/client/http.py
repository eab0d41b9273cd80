"""The way to the server: requests, answers and streams over HTTP. It does not know what they are for."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from typing import TypeVar

import aiohttp
import msgspec

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
"""A stream is alive while something comes now and then: the server sends a heartbeat every 15 s."""
REQUEST_TIMEOUT = 408
_ERROR_TYPES: Mapping[int, type[ToolyardError]] = {401: Unauthenticated, 403: Forbidden, 404: NotFound, 409: Refused}
T = TypeVar("T")


class ConnectionLost(Unavailable):
    """The connection broke, or the server is about to stop: whether it took the request is not known."""


class RequestRejected(ToolyardError):
    """The server takes nothing like this, however often it is sent: it is too large, or cannot be read."""

    def __init__(self, message: str, error_type: str) -> None:
        super().__init__(message)
        self.error_type = error_type


class _ProblemBody(msgspec.Struct):
    error: str = ""
    details: dict[str, object] = {}


class AppHttpClient:
    def __init__(self, url: str, key: str, headers: Mapping[str, str]) -> None:
        if not url.startswith(("http://", "https://")):
            raise Misconfigured(f"{url!r} is not the address of a server: write http://127.0.0.1:8080")
        self._url = url.rstrip("/")
        self._headers = {**headers, **({"authorization": f"Bearer {key}"} if key else {})}
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def request_json(self, method: str, path: str, kind: type[T], body: object = None) -> T:
        async with self._request(method, path, body, {}) as response:
            body = await response.read()
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError:
            raise ConnectionLost(
                f"what answers at {self._url} is no server of ours, but perhaps one before it"
            ) from None

    async def stream_events(
        self, method: str, path: str, body: object, headers: Mapping[str, str]
    ) -> AsyncGenerator[tuple[str, bytes], None]:
        """The last id and the data of each event. Raises Lost if the stream breaks, ToolyardError if it is refused."""
        last, rest = "", b""
        sent = {"accept": "text/event-stream", **headers}
        async with self._request(method, path, body, sent) as response:
            async for piece in response.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    name, _, value = line.partition(b":")
                    if name == b"id":
                        last = value.strip().decode()
                    elif name == b"data":
                        yield last, value.strip()

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, body: object, headers: Mapping[str, str]
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        self._session = self._session or aiohttp.ClientSession(headers=self._headers)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
        data = None if body is None else BytesIO(msgspec.json.encode(body))  # a file: in pieces, however large
        kind = {"content-type": "application/json"} if data is not None else {}
        try:
            async with self._session.request(
                method, f"{self._url}{path}", data=data, headers={**kind, **headers}, timeout=timeout
            ) as response:
                if response.status >= 400:
                    raise _build_error(response, await response.read())
                yield response
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise ConnectionLost(f"no server answers at {self._url}: {str(error) or type(error).__name__}") from None


def _build_error(response: aiohttp.ClientResponse, body: bytes) -> ToolyardError:
    try:
        told = msgspec.json.decode(body, type=_ProblemBody)
    except msgspec.DecodeError:
        told = _ProblemBody()
    said = told.error or f"the server answered {response.status}"
    match response.status:
        case 400:
            return RequestRejected(said, "validation_error")
        case 413:
            return RequestRejected(said, "too_large")
        case 422:
            return Invalid(said, told.details)
        case 429:
            after = response.headers.get("retry-after", "")
            return RateLimited(said, retry_after_s=max(1.0, float(after) if after.isdigit() else 1.0), per_minute=0)
        case status if status >= 500 or status == REQUEST_TIMEOUT:
            return ConnectionLost(said)
        case status:
            return _ERROR_TYPES.get(status, ToolyardError)(said)
