"""The wire as a whole: whole turns, hanging up, one session, headers, and secrets that stay secret."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from contextlib import aclosing

import pytest
from aiohttp import web

from toolyard.core.conversation.events import TextAppended, TurnEnded
from toolyard.core.conversation.history import History
from toolyard.core.errors import Misconfigured
from toolyard.core.items import Call, Result, TextPart, UserMessage
from toolyard.core.ports import Model
from toolyard.core.tools.definition import Tool
from toolyard.models.chat.model import OpenAIChat, Retry
from wire.local import (
    NOW,
    STREAM_HEAD,
    CountingClock,
    SleepRecorder,
    encode_chunk,
    events_of,
    failure_of,
    offer,
    open_model,
    raw_server,
    request,
    serving,
    user,
)
from wire.reply_bytes import DONE, STOP, chunk, event
from wire.strict import Reply, refuses
from wire.strict_chat import StrictChat, asks, says

HI = [user("hi")]
KEY = "sk-very-secret-0123456789"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"stop_reason": "END"}, "END"),
        ({"matched_stop": "END"}, "END"),
        ({"stop_reason": 151645, "matched_stop": None}, ""),
        ({}, ""),
    ],
    ids=["vLLM", "SGLang", "a token", "OpenAI"],
)
async def test_the_stop_sequence_is_read_where_a_server_tells_it(fields: dict[str, object], told: str) -> None:
    choice: dict[str, object] = {"index": 0, "delta": {}, "finish_reason": "stop", **fields}
    ending = event({"choices": [choice]})
    server = StrictChat(Reply(packets=[chunk(content="hi"), ending, DONE]))
    async with server.serving() as base_url, open_model(OpenAIChat(base_url=base_url)) as model:
        last = (await events_of(model, request(HI)))[-1]
    assert isinstance(last, TurnEnded) and last.stop_sequence == told


async def test_it_is_a_model() -> None:
    model: Model = OpenAIChat(base_url="http://127.0.0.1:1/v1")
    await model.close()


def answer(call: Call) -> Result:
    return Result(id=f"{call.id}.result", at=NOW, call_id=call.id, tool=call.tool, outcome="ok", content="3")


async def test_turns_go_back_and_forth_with_a_strict_provider_whatever_the_model_asks_for() -> None:
    """Arguments that are broken, names that are none, and the same provider's ids in every turn."""
    odd = asks(("add", '{"a":1,}'), ("add", '{"a": 1, "b'), ("", "{}"), ("no such/tool", "[]"))
    strict = StrictChat(odd, odd, asks(("add", {"a": 1}), text="Again."), says("Done."))
    tools, memo, clock = offer(Tool(name="add")), dict[str, object](), CountingClock()
    history = History(HI)
    async with strict.serving() as base_url, open_model(OpenAIChat(base_url=base_url)) as model:
        for _ in range(4):
            model_request = request(history, system="You add.", tools=tools, memo=memo, clock=clock)
            last = (await events_of(model, model_request))[-1]
            assert isinstance(last, TurnEnded), last
            history = history.plus(last.items)
            history = history.plus([answer(item) for item in last.items if isinstance(item, Call)])
    assert (strict.refusals, strict.replies) == ([], [])
    calls = [item for item in history if isinstance(item, Call)]
    assert [bool(call.unreadable) for call in calls] == [False, True, False, True] * 2 + [False]
    assert calls[0].arguments == {"a": 1}


async def test_one_connection_serves_turn_after_turn() -> None:
    peers: set[object] = set()

    async def handler(received: web.Request) -> web.StreamResponse:
        assert received.transport is not None
        peers.add(received.transport.get_extra_info("peername"))
        response = web.StreamResponse()
        await response.prepare(received)
        for packet in says("a", "b").packets:
            await response.write(packet)
        return response

    async with serving(handler) as base_url, open_model(OpenAIChat(base_url=base_url)) as model:
        for _ in range(5):
            assert isinstance((await events_of(model, request(HI)))[-1], TurnEnded)
    assert len(peers) == 1


async def test_an_answer_whose_end_comes_a_moment_after_its_last_word_does_not_cost_the_connection() -> None:
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = head.lower().split(b"content-length:")[1].split(b"\r\n")[0]
                await reader.readexactly(int(length))
                writer.write(STREAM_HEAD + encode_chunk(chunk(content="a") + STOP + DONE))
                for _ in range(20):
                    await asyncio.sleep(0)
                writer.write(b"0\r\n\r\n")

    async with raw_server(talk) as base_url, open_model(OpenAIChat(base_url=base_url)) as model:
        for _ in range(3):
            assert isinstance((await events_of(model, request(HI)))[-1], TurnEnded)
    assert connections == 1


class EndlessServer:
    """A server that says one word and then waits; it notes when the client hangs up."""

    def __init__(self) -> None:
        self.hung_up = asyncio.Event()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(STREAM_HEAD + encode_chunk(chunk(content="a")))
        with contextlib.suppress(ConnectionError):
            while await reader.read(65_536):
                pass
        self.hung_up.set()


async def test_closing_the_stream_hangs_up() -> None:
    endless = EndlessServer()
    async with raw_server(endless.talk) as base_url, open_model(OpenAIChat(base_url=base_url)) as model:
        async with aclosing(model.stream(request(HI))) as events:
            assert isinstance(await anext(events), TextAppended)
        await asyncio.wait_for(endless.hung_up.wait(), 5)


async def test_cancelling_the_reader_hangs_up() -> None:
    endless = EndlessServer()
    started = asyncio.Event()

    async def read(model: OpenAIChat) -> None:
        async with aclosing(model.stream(request(HI))) as events:
            async for _ in events:
                started.set()

    async with raw_server(endless.talk) as base_url, open_model(OpenAIChat(base_url=base_url)) as model:
        reading = asyncio.ensure_future(read(model))
        await started.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.wait_for(endless.hung_up.wait(), 5)


async def test_the_key_the_headers_and_the_correlation_id_are_sent() -> None:
    strict = StrictChat(says("ok"), says("ok"))
    async with strict.serving() as base_url:
        model = OpenAIChat(base_url=f"{base_url}/", api_key=f" {KEY}\n", headers={"X-Title": "yard"}, model="m-7")
        async with open_model(model):
            await events_of(model, request(HI, correlation_id="cor-1"))
            await events_of(model, request(HI, correlation_id="not\nsendable"))
    first, second = strict.headers
    assert first["Authorization"] == f"Bearer {KEY}"
    assert (first["X-Title"], first["X-Correlation-ID"]) == ("yard", "cor-1")
    assert first["Content-Type"] == "application/json"
    assert "X-Correlation-ID" not in second
    assert [asked.model for asked in strict.requests] == ["m-7", "m-7"]


async def test_without_a_key_no_authorization_is_sent() -> None:
    strict = StrictChat(says("ok"))
    async with strict.serving() as base_url, open_model(OpenAIChat(base_url=base_url)) as model:
        await events_of(model, request(HI))
    assert "Authorization" not in strict.headers[0]
    assert strict.requests[0].model == "test-model"


@pytest.mark.parametrize(
    "reply",
    [
        refuses(401, f"Incorrect API key provided: {KEY}. Find yours at …", x_request_id=KEY),
        refuses(401, "x" * 350 + KEY),
        Reply(status=500, packets=[f"debug: Authorization: Bearer {KEY} token-abcdef".encode()]),
        Reply(packets=[event({"error": {"message": f"key {KEY} is bad", "code": f"code-{KEY}"}})]),
        Reply(packets=[f"data: {KEY} token-abcdef\n\n".encode()]),
    ],
)
async def test_a_key_that_the_provider_repeats_is_masked(reply: Reply) -> None:
    async with StrictChat(reply).serving() as base_url:
        headers = {"X-Proxy-Token": "Basic token-abcdef"}
        model = OpenAIChat(
            base_url=base_url, api_key=KEY, headers=headers, retry=Retry(attempts=1), sleep=SleepRecorder()
        )
        async with open_model(model):
            failed = await failure_of(model, request(HI))
    error_text = json.dumps([failed.problem.error, failed.problem.details])
    assert KEY[:8] not in error_text
    assert "token-abcdef" not in error_text


async def test_a_redirect_is_told_and_not_followed() -> None:
    reply = Reply(status=308, packets=[b""], headers={"Location": "https://elsewhere.example/v1"})
    async with StrictChat(reply).serving() as base_url, open_model(OpenAIChat(base_url=base_url)) as model:
        failed = await failure_of(model, request(HI))
    assert failed.problem.error_type == "model_error"
    assert "redirects to https://elsewhere.example/v1" in failed.problem.error


async def test_a_body_of_many_megabytes_is_sent() -> None:
    strict = StrictChat(says("ok"))
    big = UserMessage(id="u", at=NOW, parts=(TextPart(text="x" * 5_000_000),))
    async with strict.serving() as base_url, open_model(OpenAIChat(base_url=base_url)) as model:
        assert isinstance((await events_of(model, request([big])))[-1], TurnEnded)
    assert len(strict.bodies[0]) > 5_000_000


@pytest.mark.parametrize(
    "build",
    [
        lambda: OpenAIChat(base_url="api.openai.com/v1"),
        lambda: OpenAIChat(base_url="http://h/v1", api_key="a\nb"),
        lambda: OpenAIChat(base_url="http://h/v1", headers={"X": "a\r\nY: b"}),
    ],
)
def test_what_cannot_be_sent_is_refused_when_the_model_is_made(build: Callable[[], OpenAIChat]) -> None:
    with pytest.raises(Misconfigured):
        build()
