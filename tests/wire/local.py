"""What wire tests share: a counting clock, requests for the model, and real servers on the loopback."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from aiohttp import web

from tcp_servers import ConnectionHandler, serve_connections, serve_web_app
from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.conversation.history import History
from toolyard.core.items import Item, Seal, TextPart, UserMessage
from toolyard.core.ports import Model, ModelRequest, Offer
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options
from toolyard.core.tools.definition import Tool, hash_definition

NOW = 1_700_000_000.0
M = TypeVar("M", bound=Model)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class CountingClock:
    """Ids in order and a clock that stands still."""

    _numbers: Iterable[int] = field(default_factory=lambda: count(1))

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{next(iter(self._numbers))}"

    def now(self) -> float:
        return NOW


def user(text: str, id: str = "user_1") -> UserMessage:
    return UserMessage(id=id, at=NOW, parts=(TextPart(text=text),))


def offer(*tools: Tool) -> Offer:
    return Offer(tools=tools, digest="", hashes={tool.name: hash_definition(tool) for tool in tools})


NO_TOOLS = offer()


def request(
    items: Iterable[Item] | History = (),
    *,
    system: str = "",
    tools: Offer = NO_TOOLS,
    tool_choice: str = "auto",
    memo: dict[str, object] | None = None,
    correlation_id: str = "",
    clock: CountingClock | None = None,
    model: str = "test-model",
    options: Options = DEFAULT_OPTIONS,
    native: Seal | None = None,
    instructions: str = "",
    default_tool_uses: int = 0,
) -> ModelRequest:
    history = items if isinstance(items, History) else History(items)
    return ModelRequest(
        model=model,
        turn=1,
        system=system,
        history=history,
        offer=tools,
        tool_choice=tool_choice,
        clock=clock or CountingClock(),
        memo={} if memo is None else memo,
        correlation_id=correlation_id,
        options=options,
        native=native,
        instructions=instructions,
        default_tool_uses=default_tool_uses,
    )


async def events_of(model: Model, model_request: ModelRequest) -> list[ModelDelta | TurnEnded | TurnFailed]:
    return [event async for event in model.stream(model_request)]


async def failure_of(model: Model, model_request: ModelRequest) -> TurnFailed:
    last = (await events_of(model, model_request))[-1]
    assert isinstance(last, TurnFailed), last
    return last


@asynccontextmanager
async def serving(handler: Handler, path: str = "/chat/completions") -> AsyncGenerator[str, None]:
    """Serve a path whose posts `handler` answers, and yield the base URL."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post(f"/v1{path}", handler)
    async with serve_web_app(app) as url:
        yield f"{url}/v1"


def streaming(packets: Sequence[bytes], content_type: str = "text/event-stream") -> Handler:
    """Return a handler that answers with these packets, one write each."""

    async def handler(received: web.Request) -> web.StreamResponse:
        await received.read()
        response = web.StreamResponse(headers={"Content-Type": content_type, "x-request-id": "req_7"})
        await response.prepare(received)
        for packet in packets:
            await response.write(packet)
        await response.write_eof()
        return response

    return handler


@asynccontextmanager
async def raw_server(talk: ConnectionHandler) -> AsyncGenerator[str, None]:
    async with serve_connections(talk) as port:
        yield f"http://127.0.0.1:{port}/v1"


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def encode_chunk(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(body), body)


class SleepRecorder:
    """Sleeps that are noted instead of slept."""

    def __init__(self) -> None:
        self.durations_s: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.durations_s.append(seconds)


@asynccontextmanager
async def open_model(model: M) -> AsyncGenerator[M, None]:
    """Yield the model and close it afterwards."""
    try:
        yield model
    finally:
        await model.close()
