"""`GET /v1/responses` as a WebSocket: each `response.create` message is a request, and its events are messages.

A message is answered as `POST /v1/responses` with `stream` would be, by the same code. The connection only adds what
responses with `store: false` need: their items are kept here, as long as it is open.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from time import perf_counter
from typing import NoReturn, cast

import msgspec
from litestar import WebSocket
from litestar.datastructures import State
from litestar.exceptions import WebSocketDisconnect
from litestar.types import Scope
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid
from toolyard.core.json_errors import describe_json_error
from toolyard.core.ports import Clock
from toolyard.core.settings.limits import SocketLimits
from toolyard.surfaces.http.correlation import log_request
from toolyard.surfaces.http.errors import MAX_BODY_BYTES, answer_error, invalid_field
from toolyard.surfaces.http.idempotency import KEY_HEADER
from toolyard.surfaces.http.request_body import decode_body
from toolyard.surfaces.http.request_context import CONTEXT_KEY, HEAD_KEY, HttpRequest, RequestContext, get_request_head
from toolyard.surfaces.openai.responses.parse import ResponseBody, list_input
from toolyard.surfaces.openai.responses.previous_response import build_missing_error
from toolyard.surfaces.shared.whole_history.request_keys import RETRY_HEADER
from toolyard.surfaces.surface import ErrorAnswer

CREATE = "response.create"
_ONE_REQUEST = (KEY_HEADER, RETRY_HEADER)
_GOING_AWAY, _POLICY, _TOO_BIG = 1001, 1008, 1009
_FINAL = ("response.completed", "response.incomplete")

Socket = WebSocket[object, object, State]
Authenticate = Callable[[], Caller]


class MessageRequest(HttpRequest):
    """The request that a message stands for, as if it had been sent by HTTP."""

    def __init__(self, socket: Socket, body: bytes) -> None:
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
        super().__init__(cast(Scope, {**socket.scope, **fields}))
        self._message = body

    async def body(self) -> bytes:
        return self._message


OpenStream = Callable[[MessageRequest, ResponseBody, ResponseBody], AsyncGenerator[bytes, None]]
"""Yields the server-sent events of the response to a request, from its body and that with its whole input.

Raises ToolyardError before the first of them.
"""


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

    def __init__(self, limits: SocketLimits) -> None:
        self._limits = limits
        self._inputs: dict[str, bytes] = {}

    def add(self, response_id: str, items: Sequence[Mapping[str, object]]) -> None:
        self._inputs[response_id] = msgspec.json.encode(items)
        while self._is_full():
            del self._inputs[next(iter(self._inputs))]

    def _is_full(self) -> bool:
        size = sum(map(len, self._inputs.values()))
        return len(self._inputs) > self._limits.max_kept_responses or size > self._limits.max_kept_bytes

    def find(self, response_id: str) -> list[dict[str, object]] | None:
        body = self._inputs.get(response_id)
        return msgspec.json.decode(body, type=list[dict[str, object]]) if body is not None else None

    def drop(self, response_id: str) -> None:
        self._inputs.pop(response_id, None)


class ResponseSocket:
    """One connection. Its messages are answered one after the other."""

    def __init__(
        self,
        socket: Socket,
        authenticate: Authenticate,
        open_stream: OpenStream,
        clock: Clock,
        limits: SocketLimits,
    ) -> None:
        """`authenticate` is called for each message, since keys can be revoked while a connection is open."""
        self._socket = socket
        self._authenticate = authenticate
        self._open_stream = open_stream
        self._clock = clock
        self._limits = limits
        self._kept = KeptResponses(limits)
        self._messages: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(self) -> None:
        """Answer messages until the client leaves, stalls, is idle for too long, or the server stops."""
        await self._socket.accept()
        try:
            async with asyncio.TaskGroup() as tasks:
                # A run goes on when its client leaves: only its stream ends here.
                reading = tasks.create_task(self._read_messages())
                try:
                    reason = await self._answer_messages()
                finally:
                    reading.cancel()
            await self._close(_GOING_AWAY, reason)
        except* WebSocketDisconnect:
            pass

    async def _read_messages(self) -> None:
        # Reading never waits for responses: pongs and the end of the connection come the same way as messages.
        while True:
            body = await self._receive()
            if len(body) > MAX_BODY_BYTES:
                await self._refuse(_TOO_BIG, f"a message may have {MAX_BODY_BYTES} bytes at most")
            if self._messages.qsize() >= self._limits.max_waiting_messages:
                await self._refuse(_POLICY, f"{self._limits.max_waiting_messages} messages may wait at most")
            self._messages.put_nowait(body)

    async def _receive(self) -> bytes:
        event = await self._socket.receive()
        if event["type"] != "websocket.receive":
            raise WebSocketDisconnect(detail="the client has left")
        # One kind of frame or the other: JSON is read from both.
        return (event.get("text") or "").encode() or event.get("bytes") or b""

    async def _refuse(self, code: int, reason: str) -> NoReturn:
        await self._close(code, reason)
        raise WebSocketDisconnect(detail=reason, code=code)

    async def _answer_messages(self) -> str:
        """Answer messages, and return why no more are answered."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._limits.max_age_s
        while (remaining_s := end - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(self._limits.max_idle_s, remaining_s)):
                    body = await self._messages.get()
            except TimeoutError:
                break
            await self._answer(body)
        if end <= loop.time():
            return f"a connection may last {self._limits.max_age_s:g} s: open another one"
        return f"no message came within {self._limits.max_idle_s:g} s"

    async def _answer(self, body: bytes) -> None:
        started = perf_counter()
        request = MessageRequest(self._socket, body)
        scope = cast("dict[str, object]", request.scope)
        # The id of the handshake is that of the connection: each message is a request of its own.
        correlation_id = self._clock.new_id("trace")
        scope[HEAD_KEY] = head = replace(get_request_head(scope), correlation_id=correlation_id, status=0)
        data: ResponseBody | None = None
        try:
            scope[CONTEXT_KEY] = RequestContext(caller=self._authenticate(), correlation_id=correlation_id)
            data = _decode(body)
            complete = self._complete(data)
            async with aclosing(self._open_stream(request, data, complete)) as pieces:
                async for piece in pieces:
                    head.status = 200
                    await self._send_events(piece, data, complete)
        except WebSocketDisconnect:
            raise
        except Exception as error:  # a bug of ours costs one response, as it does by HTTP, and is logged there
            if data is not None and data.previous_response_id:
                # What failed once is not gone on from: the client begins again with its whole history.
                self._kept.drop(data.previous_response_id)
            answer = answer_error(scope, error, correlation_id)
            head.status = answer.status
            await self._send_error(answer)
        finally:
            log_request(scope, head, perf_counter() - started, quiet=False)

    def _complete(self, data: ResponseBody) -> ResponseBody:
        """Return the request with the items of the response that it goes on from, if this connection keeps that one."""
        previous = data.previous_response_id
        if not previous:
            return data
        earlier_items = self._kept.find(previous)
        if earlier_items is not None:
            return replace(data, input=[*earlier_items, *list_input(data)], previous_response_id=None)
        if data.store is False:
            raise build_missing_error(previous)
        return data

    async def _send_events(self, piece: bytes, data: ResponseBody, complete: ResponseBody) -> None:
        for event in _split_events(piece):
            is_kept = data.store is False or data.generate is False
            if is_kept and msgspec.json.decode(event, type=_EventKind).type in _FINAL:
                final = msgspec.json.decode(event, type=_FinalEvent).response
                self._kept.add(final.id, [*list_input(complete), *final.output])
            await self._send(event)

    async def _send_error(self, answer: ErrorAnswer) -> None:
        fields = msgspec.to_builtins(answer.body)
        # The status and the error are the shape of Open Responses; the other fields are those of OpenAI's own events.
        # The headers are those of the same error by HTTP: the id of the request, and when it may be sent again.
        event = {"type": "error", "status": answer.status, "sequence_number": 0, "headers": answer.headers, **fields}
        event |= {name: fields["error"][name] for name in ("code", "message", "param")}
        await self._send(msgspec.json.encode(event))

    async def _send(self, event: bytes) -> None:
        """Send a message. Raise WebSocketDisconnect if the client has left, or reads nothing for too long."""
        try:
            async with asyncio.timeout(self._limits.max_send_s):
                await self._socket.send_data(event.decode(), mode="text")
        except (TimeoutError, OSError) as error:
            raise WebSocketDisconnect(detail="the client does not read") from error

    async def _close(self, code: int, reason: str) -> None:
        with suppress(WebSocketDisconnect, RuntimeError, OSError, TimeoutError):  # it may be closed already
            async with asyncio.timeout(self._limits.max_send_s):
                await self._socket.close(code=code, reason=reason)


def _decode(body: bytes) -> ResponseBody:
    """Return the request of a message. Raise Invalid for any other message."""
    try:
        kind = msgspec.json.decode(body, type=_CreateMessage).type
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"the message is not a JSON object with a type: {describe_json_error(body, error)}") from None
    if kind != CREATE:
        raise invalid_field("type", f"{kind[:40]!r} is not supported: send {CREATE!r}")
    data = decode_body(body, ResponseBody)
    if data.background:
        raise invalid_field("background", "cannot be used on a WebSocket: send the request by HTTP")
    return replace(data, stream=True)


def _split_events(piece: bytes) -> list[bytes]:
    """Return the data of the server-sent events in a piece of a stream; none of a comment."""
    return [line.removeprefix(b"data: ") for line in piece.split(b"\n") if line.startswith(b"data: ")]
