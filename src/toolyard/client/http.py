"""HTTP requests and event streams to the server. `AppClient` decides what to send and when to retry."""

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
"""A stream without any data for so long counts as lost: the server sends a heartbeat every 15 s."""
REQUEST_TIMEOUT = 408
_ERROR_TYPES: Mapping[int, type[ToolyardError]] = {401: Unauthenticated, 403: Forbidden, 404: NotFound, 409: Refused}
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
                f"the answer from {self._url} is not one of a Toolyard server; a proxy in front of it may have sent it"
            ) from None

    async def stream_events(
        self, method: str, path: str, body: object, headers: Mapping[str, str]
    ) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield the last event id and the data of each event.

        Raise ConnectionLost if the stream breaks, or another ToolyardError if the request is refused.
        """
        event_id, partial_line = "", b""
        request_headers = {"accept": "text/event-stream", **headers}
        async with self._request(method, path, body, request_headers) as response:
            async for chunk in response.content.iter_any():
                *lines, partial_line = (partial_line + chunk).split(b"\n")
                for line in lines:
                    name, _, value = line.partition(b":")
                    if name == b"id":
                        event_id = value.strip().decode()
                    elif name == b"data":  # the server writes the data of an event on one line
                        yield event_id, value.strip()

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, body: object, headers: Mapping[str, str]
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        self._session = self._session or aiohttp.ClientSession(headers=self._headers)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
        data = None if body is None else BytesIO(msgspec.json.encode(body))  # a file object: aiohttp sends it in chunks
        content_type = {"content-type": "application/json"} if data is not None else {}
        try:
            async with self._session.request(
                method, f"{self._url}{path}", data=data, headers={**content_type, **headers}, timeout=timeout
            ) as response:
                if response.status >= 400:
                    raise _build_error(response, await response.read())
                yield response
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise ConnectionLost(f"no server answers at {self._url}: {str(error) or type(error).__name__}") from None


def _build_error(response: aiohttp.ClientResponse, body: bytes) -> ToolyardError:
    try:
        problem = msgspec.json.decode(body, type=_ProblemBody)
    except msgspec.DecodeError:
        problem = _ProblemBody()
    message = problem.error or f"the server answered {response.status}"
    match response.status:
        case 400:
            return RequestRejected(message, "validation_error")
        case 413:
            return RequestRejected(message, "too_large")
        case 422:
            return Invalid(message, problem.details)
        case 429:
            after = response.headers.get("retry-after", "")
            return RateLimited(message, retry_after_s=max(1.0, float(after) if after.isdigit() else 1.0), per_minute=0)
        case status if status >= 500 or status == REQUEST_TIMEOUT:
            return ConnectionLost(message)
        case status:
            return _ERROR_TYPES.get(status, ToolyardError)(message)
