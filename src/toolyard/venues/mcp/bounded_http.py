"""HTTP responses with a bound on their size: no larger than the largest MCP message, in whatever way they are sent."""

from collections.abc import AsyncIterator

import httpx2

from toolyard.venues.mcp.sessions.stdio import MAX_MESSAGE_BYTES

UNCOMPRESSED = {"accept-encoding": "identity"}
"""Request headers that forbid compression: a small compressed body may decode to a thousand times its size."""


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """A transport that limits every response."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return limit_response(await super().handle_async_request(request))


def limit_response(response: httpx2.Response) -> httpx2.Response:
    """Return the response with a stream that raises ReadError beyond MAX_MESSAGE_BYTES.

    An event stream is not limited here: it may go on for hours, and the SDK limits each event.
    """
    content_type = response.headers.get("content-type", "")
    if content_type.startswith("text/event-stream") and "content-encoding" not in response.headers:
        return response
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    # The bound counts bytes before they are decoded, so a compressed body, which we never ask for, is refused at once.
    compressed = response.headers.get("content-encoding", "identity") != "identity"
    return httpx2.Response(
        response.status_code,
        headers=response.headers,
        stream=_LimitedStream(response.stream, 0 if compressed else MAX_MESSAGE_BYTES),
        extensions=response.extensions,
    )


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._stream = stream
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        remaining_bytes = self._max_bytes
        async for chunk in self._stream:
            remaining_bytes -= len(chunk)
            if remaining_bytes < 0:
                raise httpx2.ReadError(f"the answer is compressed, or longer than {MAX_MESSAGE_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
