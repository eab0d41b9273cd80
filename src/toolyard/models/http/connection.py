"""One HTTP/1.1 connection: a request goes out whole, its answer arrives in pieces, then the next request may follow.

`connect` opens connections; `client` decides what is sent over them, and when.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import httptools

MAX_HEAD_BYTES = 65_536
READ_BYTES = 65_536
MAX_WAITING_BYTES = 262_144
"""Unread bytes of a body beyond which reading from the socket pauses."""


class HttpProtocolError(ConnectionError):
    """The other side sent something that is not HTTP/1.1, or more than was asked for."""


_buffer = memoryview(bytearray(READ_BYTES))
"""The read buffer of all connections. httptools copies what it parses, and each read is parsed before the next one."""


class HttpConnection(asyncio.BufferedProtocol):
    def __init__(self, loop: asyncio.AbstractEventLoop, on_idle: Callable[["HttpConnection"], None]) -> None:
        """`on_idle` is called when an answer was read to its end and the connection can be used again."""
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}
        self.used = False
        """Whether an earlier answer came over this connection."""
        self.idle_since = 0.0
        self.loop = loop
        self._on_idle = on_idle
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._pieces: list[bytes] = []
        self._waiting_bytes = self._head_bytes = 0
        self._head_came = self._complete = self._keep_alive = self._paused = False
        self._lost: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def at_end(self) -> bool:
        """Return whether the answer was read to its end."""
        return self._complete and not self._pieces

    @property
    def closed(self) -> bool:
        return self._lost is not None

    @property
    def _sent_all(self) -> bool:
        return self._lost is None and self._transport is not None and not self._transport.get_write_buffer_size()

    def send(self, *request: bytes) -> None:
        """Send a request. Raises ConnectionError if the other side closed the connection meanwhile."""
        if self._lost is not None or self._transport is None:
            raise self._lost or ConnectionResetError("it is not connected")
        self.headers = {}
        self.used = self._complete  # still that of the previous answer
        self._parser = httptools.HttpResponseParser(self)
        self._head_bytes = 0
        self._head_came = self._complete = self._keep_alive = False
        for piece in request:
            self._transport.write(piece)

    async def read_head(self, due: float) -> None:
        """Wait for `status` and `headers`. Raises ConnectionError, or TimeoutError if the loop's clock passes `due`."""
        while not self._head_came:
            await self._wait_for_data(due)

    async def read(self, due: float) -> bytes:
        """Return the next bytes of the body, empty at its end. Raises as `read_head` does."""
        while not self._pieces:
            if self._complete:
                return b""
            await self._wait_for_data(due)
        pieces, self._pieces = self._pieces, []
        self._waiting_bytes = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def release(self) -> None:
        """End the exchange: offer the connection for reuse if request and answer are complete, else close it."""
        if self._complete and self._keep_alive and not self._pieces and self._sent_all:
            self.idle_since = self.loop.time()
            self._on_idle(self)
        else:
            self.close()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lost is None:
            self._lost = ConnectionResetError("it was closed")
        if self._transport is not None:
            self._transport.abort()

    async def start_tls(self, start: Callable[[asyncio.Transport], Awaitable[asyncio.Transport | None]]) -> None:
        """Replace the transport by the TLS transport that `start` returns for it."""
        assert self._transport is not None
        self._transport = await start(self._transport)

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports are not subclasses of it

    def get_buffer(self, sizehint: int) -> memoryview:
        return _buffer

    def buffer_updated(self, nbytes: int) -> None:
        parser = self._parser
        if parser is None or self._complete:
            self.close()  # bytes without a request: the connection cannot be trusted any more
            return
        if not self._head_came:
            self._head_bytes += nbytes
        try:
            parser.feed_data(_buffer[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(HttpProtocolError(f"the answer is not HTTP/1.1: {error}"))
        if not self._head_came and self._head_bytes > MAX_HEAD_BYTES:
            self._fail(HttpProtocolError(f"the answer's head is longer than {MAX_HEAD_BYTES:,} bytes"))
        if self._waiting_bytes > MAX_WAITING_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        # A body with neither a length nor chunks ends where the connection ends: only then is a clean close the end
        # of the answer and not a cut.
        if self._head_came and not self._complete and exc is None and self._ends_with_connection():
            self._complete = True
        if self._lost is None:
            self._lost = exc or ConnectionResetError("the other side hung up")
        self._wake()

    # Called by httptools.

    def on_message_begin(self) -> None:
        if self._complete:
            raise HttpProtocolError("the other side sends more than it was asked for")

    def on_status(self, status: bytes) -> None:
        self.reason = status.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self.status = self._parser.get_status_code()
        if self.status >= 200:
            self._head_came = True
        else:
            self.headers = {}  # 1xx: an interim answer, the real one follows

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._waiting_bytes += len(body)

    def on_message_complete(self) -> None:
        if self._head_came and self._parser is not None:
            self._complete = True
            self._keep_alive = self._parser.should_keep_alive()

    # Waiting and deadlines.

    async def _wait_for_data(self, due: float) -> None:
        """Wait until bytes arrive or the connection ends. Raises TimeoutError at `due`.

        A stream waits thousands of times, each time with a later deadline. One timer serves all waits: it is only set
        earlier here, and when it fires before the current deadline it is set again.
        """
        if self._lost is not None:
            raise self._lost
        self._due = due
        if self._timer is None or self._timer.when() > due:
            self._set_timer()
        self._waiter = self.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(self._due, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._waiter is None:
            return
        if self.loop.time() < self._due:
            self._set_timer()
        elif not self._waiter.done():
            self._waiter.set_exception(TimeoutError())

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, why: Exception) -> None:
        self._lost = self._lost or why
        self.close()

    def _ends_with_connection(self) -> bool:
        return "content-length" not in self.headers and "chunked" not in self.headers.get("transfer-encoding", "")
