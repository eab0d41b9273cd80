"""`GET /v1/responses` as a WebSocket: each `response.create` message is a request, and its events are messages.

A message is answered as `POST /v1/responses` with `stream` would be, by the same code. The connection only adds what
responses with `store: false` need: their items are kept here, as long as it is open.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import cast

import msgspec
from litestar import Request, WebSocket
from litestar.datastructures import State
from litestar.exceptions import WebSocketDisconnect
from litestar.types import Scope
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.errors import Invalid
from toolyard.surfaces.errors import build_error_response, invalid_field
from toolyard.surfaces.idempotency import KEY_HEADER
from toolyard.surfaces.openai.errors import encode_error
from toolyard.surfaces.openai.request_keys import RETRY_HEADER
from toolyard.surfaces.openai.responses.continuation import build_missing_error
from toolyard.surfaces.openai.responses.parse import ResponseBody, list_input
from toolyard.surfaces.request_body import MAX_BODY_BYTES, decode_body
from toolyard.surfaces.request_context import CONTEXT_KEY, RequestContext

CREATE = "response.create"
MAX_IDLE_S = 600.0
"""A connection without a message or a response for so long is closed."""
MAX_CONNECTION_S = 3600.0
"""A connection is closed after this time, between two responses, as OpenAI does."""
MAX_SEND_S = 60.0
"""How long one message to the client may take; a client that reads nothing is disconnected."""
MAX_WAITING_MESSAGES = 4
"""Messages that are read while a response is streamed. The others stay in the socket's buffers."""
MAX_KEPT_RESPONSES, MAX_KEPT_BYTES = 16, 16 * 1024 * 1024
"""Responses with `store: false` that a connection keeps."""
_ONE_REQUEST = (KEY_HEADER, RETRY_HEADER)
_GOING_AWAY, _TOO_BIG = 1001, 1009
_FINAL = ("response.completed", "response.incomplete")

Socket = WebSocket[object, object, State]
OpenStream = Callable[[ResponseBody, ResponseBody, bytes], AsyncGenerator[bytes, None]]
"""Yields the server-sent events of the response to a message, from its request and that with its whole input.

Raises ToolyardError before the first of them.
"""


class MessageRequest(Request[object, object, State]):
    """The request that a message stands for, as if it had been sent by HTTP."""

    def __init__(self, socket: Socket, body: bytes, context: RequestContext) -> None:
        # Headers of the handshake that are about one request must not make all messages the same request.
        headers = [pair for pair in socket.scope["headers"] if pair[0].decode("latin-1") not in _ONE_REQUEST]
        scheme = "https" if socket.scope["scheme"] == "wss" else "http"
        fields: dict[str, object] = {
            "type": "http",
            "method": "POST",
            "scheme": scheme,
            "headers": headers,
            "state": {},
        }
        super().__init__(cast(Scope, {**socket.scope, **fields, CONTEXT_KEY: context}))
        self._message = body

    async def body(self) -> bytes:
        return self._message


class _CreateMessage(Struct):
    type: str = ""


class _EventKind(Struct):
    type: str


class _FinalResponse(Struct):
    id: str
    output: list[dict[str, object]]


class _FinalEvent(Struct):
    response: _FinalResponse


class KeptResponses:
    """The inputs and outputs of responses that were not stored, by their ids, the oldest of which are dropped."""

    def __init__(self) -> None:
        self._inputs: dict[str, bytes] = {}

    def add(self, response_id: str, items: Sequence[Mapping[str, object]]) -> None:
        self._inputs[response_id] = msgspec.json.encode(items)
        while len(self._inputs) > MAX_KEPT_RESPONSES or sum(map(len, self._inputs.values())) > MAX_KEPT_BYTES:
            del self._inputs[next(iter(self._inputs))]

    def find(self, response_id: str) -> list[dict[str, object]] | None:
        body = self._inputs.get(response_id)
        return msgspec.json.decode(body, type=list[dict[str, object]]) if body is not None else None

    def drop(self, response_id: str) -> None:
        self._inputs.pop(response_id, None)


class ResponseSocket:
    """One connection. Its messages are answered one after the other."""

    def __init__(self, socket: Socket, open_stream: OpenStream, correlation_id: str) -> None:
        self._socket = socket
        self._open_stream = open_stream
        self._correlation_id = correlation_id
        self._kept = KeptResponses()
        self._messages: asyncio.Queue[bytes] = asyncio.Queue(MAX_WAITING_MESSAGES)

    async def serve(self) -> None:
        """Answer messages until the client leaves, stalls, is idle for too long, or the server stops."""
        await self._socket.accept()
        try:
            async with asyncio.TaskGroup() as tasks:
                # A run goes on when its client leaves: only its stream ends here.
                reading = tasks.create_task(self._read_messages())
                try:
                    await self._answer_messages()
                finally:
                    reading.cancel()
        except* (WebSocketDisconnect, TimeoutError):
            pass
        await self._close(_GOING_AWAY, "")

    async def _read_messages(self) -> None:
        while True:
            body = (await self._socket.receive_data("text")).encode()
            if len(body) > MAX_BODY_BYTES:
                await self._close(_TOO_BIG, f"a message may have {MAX_BODY_BYTES} bytes at most")
                raise WebSocketDisconnect(detail="a message is too long", code=_TOO_BIG)
            await self._messages.put(body)

    async def _answer_messages(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + MAX_CONNECTION_S
        while (remaining_s := end - loop.time()) > 0:
            async with asyncio.timeout(min(MAX_IDLE_S, remaining_s)):
                body = await self._messages.get()
            await self._answer(body)

    async def _answer(self, body: bytes) -> None:
        data: ResponseBody | None = None
        try:
            data = _decode(body)
            await self._stream(self._complete(data), data, body)
        except (WebSocketDisconnect, TimeoutError):
            raise
        except Exception as error:  # a bug of ours costs one response, as it does by HTTP, and is logged there
            if data is not None and data.previous_response_id:
                # What failed once is not gone on from: the client begins again with its whole history.
                self._kept.drop(data.previous_response_id)
            await self._send_error(error)

    def _complete(self, data: ResponseBody) -> ResponseBody:
        """Return the request with the items of the response that it goes on from, if this connection keeps that one."""
        previous = data.previous_response_id
        if not previous:
            return data
        kept = self._kept.find(previous)
        if kept is not None:
            return replace(data, input=[*kept, *list_input(data)], previous_response_id=None)
        if data.store is False:
            raise build_missing_error(previous)
        return data

    async def _stream(self, complete: ResponseBody, data: ResponseBody, body: bytes) -> None:
        async with aclosing(self._open_stream(data, complete, body)) as pieces:
            async for piece in pieces:
                for event in _split_events(piece):
                    if data.store is False and msgspec.json.decode(event, type=_EventKind).type in _FINAL:
                        final = msgspec.json.decode(event, type=_FinalEvent).response
                        self._kept.add(final.id, [*list_input(complete), *final.output])
                    await self._send(event)

    async def _send(self, event: bytes) -> None:
        async with asyncio.timeout(MAX_SEND_S):
            await self._socket.send_data(event.decode(), mode="text")

    async def _send_error(self, error: Exception) -> None:
        answer = encode_error(*build_error_response(error, self._correlation_id))
        fields = msgspec.to_builtins(answer.body)
        # The status and the error are the shape of Open Responses; the other fields are those of OpenAI's own events.
        event = {"type": "error", "status": answer.status, "sequence_number": 0, **fields}
        event |= {name: fields["error"][name] for name in ("code", "message", "param")}
        await self._send(msgspec.json.encode(event))

    async def _close(self, code: int, reason: str) -> None:
        with suppress(WebSocketDisconnect, RuntimeError, TimeoutError):  # it may be closed already
            async with asyncio.timeout(MAX_SEND_S):
                await self._socket.close(code=code, reason=reason)


def _decode(body: bytes) -> ResponseBody:
    """Return the request of a message. Raise Invalid for any other message."""
    try:
        kind = msgspec.json.decode(body, type=_CreateMessage).type
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"the message is not a JSON object with a type: {error}") from None
    if kind != CREATE:
        raise invalid_field("type", f"{kind[:40]!r} is not supported: send {CREATE!r}")
    data = decode_body(body, ResponseBody)
    if data.background:
        raise invalid_field("background", "cannot be used on a WebSocket: send the request by HTTP")
    return replace(data, stream=True)


def _split_events(piece: bytes) -> list[bytes]:
    """Return the data of the server-sent events in a piece of a stream; none of a comment."""
    return [line.removeprefix(b"data: ") for line in piece.split(b"\n") if line.startswith(b"data: ")]
