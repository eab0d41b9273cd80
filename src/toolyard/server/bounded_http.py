"""uvicorn's HTTP protocol with limits that apply before authentication: the size of a request's head, and its time.

Refusals have the same JSON shape as every other error of the server.
"""

import asyncio
import json
import secrets
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

MAX_HEAD_BYTES = 64 * 1024
"""For the request line, the headers and the trailers together. The body has its own limit elsewhere."""
MAX_REQUEST_S = 60.0
"""How long a request may take to arrive completely."""

CLOSE_DELAY_S = 1.0
_FIELD_OVERHEAD = len(": \r\n")


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket that is reset some time after its end, if a client that reads nothing keeps it from closing."""

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self.loop.call_later(self.close_timeout, self.transport.abort)


class BoundedHttp(HttpToolsProtocol):
    """One connection. It refuses a head that is too large, and a request that does not arrive in time."""

    max_head_bytes = MAX_HEAD_BYTES
    request_s = MAX_REQUEST_S

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._in_head = True
        self._field_bytes = 0
        self._unbroken_bytes = 0
        self._reached_boundary = False
        self._refused = False
        self._deferred: tuple[int, str, str] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser in pieces, and refuse a head or a trailer that is longer than `max_head_bytes`.

        The parser does not say where in its input a head ends, so bytes are counted in two ways. `_unbroken_bytes`
        counts the bytes since the last piece in which a head ended or a body continued: no piece is longer than what
        remains of the limit, so a head that fits always ends in time, and body bytes that arrive with it do not count.
        `_field_bytes` counts the bytes of the fields that the parser has read: this is the length of a head that
        begins in the middle of a piece, behind an earlier request.
        """
        while data and not self._refused:
            remaining = self.max_head_bytes - self._unbroken_bytes
            piece, data = data[:remaining], data[remaining:]
            self._reached_boundary = False
            super().data_received(piece)
            self._unbroken_bytes = 0 if self._reached_boundary else self._unbroken_bytes + len(piece)
            if self._unbroken_bytes >= self.max_head_bytes:
                self._refuse_head()

    def on_message_begin(self) -> None:
        self._start_deadline()
        self._in_head, self._field_bytes = True, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count_field(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_field(len(name) + len(value) + _FIELD_OVERHEAD)
        # httptools reports trailers as headers too. They are dropped: a trailer that arrives after the application has
        # read the headers must not add to them or replace one, such as a header for authentication.
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._reached_boundary = False, True
        if not self._refused:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._reached_boundary = True
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._reached_boundary = True
        if self._refused:
            return
        self._cancel_deadline()
        super().on_message_complete()
        self._in_head = True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._deferred is not None and self.cycle.response_complete:
            self._send_refusal(*self._deferred)

    def handle_websocket_upgrade(self) -> None:
        # Another protocol has the connection from here on: this one must not answer it any more.
        self._cancel_deadline()
        self._refused = True
        if self.cycle is not None and not self.cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
            # The handshake came behind a request that is still being answered: the two would write at the same time.
            self.transport.abort()
            return
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "invalid_request", msg)

    def _start_deadline(self) -> None:
        # The timer that runs since the connection was made goes on when the first byte arrives: a client that connects
        # and then sends slowly gets no extra time.
        if self._deadline is None:
            error = f"the request did not arrive within {self.request_s:g} s"
            self._deadline = self.loop.call_later(self.request_s, self._refuse, 408, "timeout", error)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _count_field(self, size: int) -> None:
        self._field_bytes += size
        if self._field_bytes > self.max_head_bytes:
            self._refuse_head()

    def _refuse_head(self) -> None:
        part = "head" if self._in_head else "head and the trailer"
        self._refuse(431, "too_large", f"the {part} of a request may have {self.max_head_bytes} bytes at most")

    def _refuse(self, status: int, error_type: str, error: str) -> None:
        if self._refused:
            return
        self._cancel_deadline()
        self._refused = True
        answering = self.cycle is not None and not self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]
        if answering and self._in_head:
            # The refused head belongs to the next request of this connection. Responses have to be sent in the order of
            # the requests, so the refusal waits until the earlier request has been answered.
            self._deferred = (status, error_type, error)
        elif answering and self.cycle.response_started:
            # Part of this request's response is already sent, so an error response can no longer be sent.
            self.transport.abort()
        else:
            self._send_refusal(status, error_type, error)

    def _send_refusal(self, status: int, error_type: str, error: str) -> None:
        self._deferred = None
        if self.transport.is_closing():
            return
        correlation_id = f"trace_{secrets.token_hex(10)}"
        content: dict[str, object] = {"ok": False, "success": False, "error": error, "error_type": error_type}
        body = json.dumps({**content, "details": {}, "correlation_id": correlation_id}).encode()
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nx-correlation-id: {correlation_id}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.write_eof()
        # Closing while the client still sends would reset the connection, and the client could lose the response.
        self.loop.call_later(CLOSE_DELAY_S, self.transport.close)
