"""uvicorn's HTTP protocol with bounds on what a request may take before anybody is let in: bytes of head, and time.

It does not know what is served. What it refuses, it refuses in the shape that every error here has.
"""

import asyncio
import json
import secrets
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 * 1024
REQUEST_S = 60.0
"""How long a request may take to arrive whole."""

LAST_WORDS_S = 1.0


class BoundedHttp(HttpToolsProtocol):
    most_head_bytes = MOST_HEAD_BYTES
    request_s = REQUEST_S

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._head_bytes = 0
        self._in_head = True
        self._refused = False
        self._hurry: asyncio.TimerHandle | None = None
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._at_ease()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self.most_head_bytes:
                self._refuse(431, "too_large", f"the head of a request may have {self.most_head_bytes} bytes at most")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._begin()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._at_ease()
        self._in_head, self._head_bytes = True, 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "invalid_request", msg)

    def _begin(self) -> None:
        if self._hurry is None:
            late = f"the request did not arrive within {self.request_s:g} s"
            self._hurry = self.loop.call_later(self.request_s, self._refuse, 408, "timeout", late)

    def _at_ease(self) -> None:
        if self._hurry is not None:
            self._hurry.cancel()
            self._hurry = None

    def _refuse(self, status: int, error_type: str, error: str) -> None:
        self._at_ease()
        answering = self.cycle is not None and not self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]
        if answering and self.cycle.response_started:
            self.transport.abort()
            return
        correlation_id = f"trace_{secrets.token_hex(10)}"
        self._refused = True
        told: dict[str, object] = {
            "ok": False,
            "success": False,
            "error": error,
            "error_type": error_type,
            "details": {},
        }
        body = json.dumps({**told, "details": {}, "correlation_id": correlation_id}).encode()
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nx-correlation-id: {correlation_id}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.write_eof()
        self.loop.call_later(LAST_WORDS_S, self.transport.close)  # not at once: what still comes in would cut it off
