"""Answers over HTTP that may not be larger than any message, however a server sends them. It does not know MCP."""

from collections.abc import AsyncIterator

import httpx2

from toolyard.venues.mcp.sessions.stdio import MAX_MESSAGE_BYTES

UNCOMPRESSED = {"accept-encoding": "identity"}
"""What is packed may be a thousand times larger than it looks."""


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """For a client whose answers are all small."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return limit_response(await super().handle_async_request(request))


def limit_response(response: httpx2.Response) -> httpx2.Response:
    """The same answer, cut off where it is too large. A stream of events goes on: there each event has its bound."""
    kind = response.headers.get("content-type", "")
    if kind.startswith("text/event-stream") and "content-encoding" not in response.headers:
        return response
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    packed = response.headers.get("content-encoding", "identity") != "identity"
    return httpx2.Response(
        response.status_code,
        headers=response.headers,
        stream=_LimitedStream(response.stream, 0 if packed else MAX_MESSAGE_BYTES),
        extensions=response.extensions,
    )


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._stream = stream
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._max_bytes
        async for piece in self._stream:
            left -= len(piece)
            if left < 0:
                raise httpx2.ReadError(f"the answer is packed, or longer than {MAX_MESSAGE_BYTES:,} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()
