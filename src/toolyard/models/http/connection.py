"""One HTTP/1.1 connection: a request goes out whole, its answer comes back in pieces, then the next one may go.

It does not know whom it is connected to, how that came about (`_dialing`), nor what is said on it (`_http`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import httptools

MAX_HEAD_BYTES = 65_536
READ_BYTES = 65_536
MAX_WAITING_BYTES = 262_144
"""Of an answer that nobody reads: beyond it the other side has to wait."""


class HttpProtocolError(ConnectionError):
    """The other side says something that is not HTTP, or more of it than is taken."""


_buffer = memoryview(bytearray(READ_BYTES))
"""What is read goes through here and is parsed at once, whichever connection it is from: one buffer serves them all."""


class HttpConnection(asyncio.BufferedProtocol):
    def __init__(self, loop: asyncio.AbstractEventLoop, on_idle: Callable[["HttpConnection"], None]) -> None:
        """`to_idle` is told when an answer was taken to its end and the connection can be used again."""
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}
        self.used = False
        """Whether an answer came over it before this one."""
        self.idle_since = 0.0
        self._loop = loop
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
    def closed(self) -> bool:
        return self._lost is not None

    @property
    def _sent_all(self) -> bool:
        return self._lost is None and self._transport is not None and not self._transport.get_write_buffer_size()

    def send(self, *request: bytes) -> None:
        """Begin the exchange. Raises ConnectionError if the other side hung up meanwhile."""
        if self._lost is not None or self._transport is None:
            raise self._lost or ConnectionResetError("it is not connected")
        self.headers = {}
        self.used = self._complete
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
        """The next bytes of the body, empty at its end. Raises like `head`."""
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
        """The exchange is over: the next one may go over this connection, if both sides said all of this one."""
        if self._complete and self._keep_alive and not self._pieces and self._sent_all:
            self.idle_since = self._loop.time()
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
        """Go on over the transport that `start` makes of the plain one."""
        assert self._transport is not None
        self._transport = await start(self._transport)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are no subclass of it

    def get_buffer(self, sizehint: int) -> memoryview:
        return _buffer

    def buffer_updated(self, nbytes: int) -> None:
        parser = self._parser
        if parser is None or self._complete:
            self.close()  # nobody asked
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
        if self._head_came and not self._complete and exc is None and self._ends_with_connection():
            self._complete = True
        if self._lost is None:
            self._lost = exc or ConnectionResetError("the other side hung up")
        self._wake()

    # What httptools calls.

    def on_message_begin(self) -> None:
        if self._complete:
            raise HttpProtocolError("the other side says more than it was asked")

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
            self.headers = {}  # only a sign of life; the answer follows

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._waiting_bytes += len(body)

    def on_message_complete(self) -> None:
        if self._head_came and self._parser is not None:
            self._complete = True
            self._keep_alive = self._parser.should_keep_alive()

    # The rest is between these.

    async def _wait_for_data(self, due: float) -> None:
        """Wait until something arrives. One timer serves all waits, moved on when it fires: most never do."""
        if self._lost is not None:
            raise self._lost
        self._due = due
        if self._timer is None or self._timer.when() > due:
            self._set_timer()
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._due, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._waiter is None:
            return
        if self._loop.time() < self._due:
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
