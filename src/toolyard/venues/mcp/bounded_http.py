"""HTTP to servers, with bounds: on the size of a response and, for servers added from outside, on where it may go."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import cast

import httpcore2
import httpx2

from toolyard.core.settings.network.addresses import is_public
from toolyard.venues.mcp.sessions.stdio import MAX_MESSAGE_BYTES

UNCOMPRESSED = {"accept-encoding": "identity"}
"""Request headers that forbid compression: a small compressed body may decode to a thousand times its size."""
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a host."""


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """A transport that limits every response. With `public_only` it reaches only the public network."""

    def __init__(self, *, public_only: bool) -> None:
        super().__init__()
        self._public_only = public_only
        if public_only:
            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=httpx2.create_ssl_context(), network_backend=PublicBackend()
            )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = limit_response(await super().handle_async_request(request))
        if self._public_only and response.is_redirect:
            del response.headers["location"]  # it is not followed: the server that was added is the one that is used
        return response


class PublicBackend(httpcore2.AsyncNetworkBackend):
    """Connects only to public addresses.

    The host is looked up here, and the connection goes to the address that was checked: a second lookup could lead
    somewhere else.
    """

    def __init__(self, backend: httpcore2.AsyncNetworkBackend | None = None, resolve: Resolve | None = None) -> None:
        # Without anyio its class has another type, which hides that it is a backend.
        self._backend = backend or cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())
        self._resolve = resolve or _resolve

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        error = httpcore2.ConnectError(
            f"{host} is not on the public network: an administrator may allow it with private_addresses = true"
        )
        for address in await self._find_addresses(host, port, timeout):
            if is_public(address):
                try:
                    return await self._backend.connect_tcp(address, port, timeout, local_address, socket_options)
                except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as failure:
                    error = failure
        raise error

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.ConnectError("a socket of this machine is not on the public network")

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)

    async def _find_addresses(self, host: str, port: int, timeout: float | None) -> Sequence[str]:
        try:
            async with asyncio.timeout(timeout):
                return await self._resolve(host, port)
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"{host} was not found in time") from None
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error


async def _resolve(host: str, port: int) -> Sequence[str]:
    resolved = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in resolved]


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
