"""uvicorn's HTTP protocol with bounds on what a request may take before anybody is let in: bytes of head, and time.

It does not know what is served. What it refuses, it refuses in the shape that every error here has.
"""

import asyncio
import json
import secrets
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
"""For the request line and the headers together with the trailers. The body has its own limit."""
MAX_REQUEST_S = 60.0
"""How long a request may take to arrive whole."""

CLOSE_DELAY_S = 1.0
_FIELD_OVERHEAD = len(": \r\n")


class BoundedHttp(HttpToolsProtocol):
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

        The parser does not say where in its input a head ends, so bytes are counted in two ways. `_unbroken_bytes` are
        those since the last piece in which a head ended or a body went on: no piece is longer than what is left of the
        limit, so a head that fits always ends in time, and body bytes that arrive with it are not counted.
        `_field_bytes` are those of the fields that the parser has read: they tell the length of a head that begins in
        the middle of a piece, behind an earlier request.
        """
        while data and not self._refused:
            room = self.max_head_bytes - self._unbroken_bytes
            piece, data = data[:room], data[room:]
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
        if self._in_head:  # a trailer is no header: whoever reads the headers has to be able to rely on the head alone
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

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "invalid_request", msg)

    def _start_deadline(self) -> None:
        if self._deadline is None:
            late = f"the request did not arrive within {self.request_s:g} s"
            self._deadline = self.loop.call_later(self.request_s, self._refuse, 408, "timeout", late)

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
        if answering and self._in_head:  # an earlier request of this connection is answered first
            self._deferred = (status, error_type, error)
        elif answering and self.cycle.response_started:
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
        self.loop.call_later(CLOSE_DELAY_S, self.transport.close)  # not at once: what still comes in would cut it off
