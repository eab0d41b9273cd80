"""Deadlines for connecting, for the first byte and between reads: each is named when it ends a turn."""

import asyncio
import socket

import pytest
from aiohttp import web
from msgspec.structs import replace

from toolyard.core.conversation.events import TextAppended, TurnEnded
from toolyard.models.chat.model import Deadlines, OpenAIChat, Retry
from toolyard.models.http import retries as http_client
from wire.local import (
    STREAM_HEAD,
    SleepRecorder,
    encode_chunk,
    failure_of,
    open_model,
    raw_server,
    request,
    serving,
    user,
)
from wire.reply_bytes import DONE, STOP, chunk

HI = [user("hi")]


@pytest.mark.parametrize(
    ("sent", "deadline"),
    [(b"", "first_byte"), (STREAM_HEAD, "first_byte"), (STREAM_HEAD + encode_chunk(chunk(content="a")), "idle")],
)
async def test_a_server_that_falls_silent_is_given_up_at_the_deadline_that_is_named(sent: bytes, deadline: str) -> None:
    over = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        await over.wait()

    sleeps = SleepRecorder()
    deadlines = Deadlines(first_byte_s=0.2, idle_s=0.05)
    async with raw_server(talk) as base_url:
        async with open_model(OpenAIChat(base_url=base_url, deadlines=deadlines, sleep=sleeps)) as model:
            problem = (await failure_of(model, request(HI))).problem
        over.set()
    assert (problem.error_type, problem.details["deadline"], sleeps.durations_s) == ("timeout", deadline, [])
    assert f"the {deadline.replace('_', ' ')} deadline" in problem.error


async def test_where_another_can_answer_the_first_byte_is_waited_for_less_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "FAIL_FAST_FIRST_BYTE_S", 0.1)
    over = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()

    async with raw_server(talk) as base_url, asyncio.timeout(60):
        async with open_model(OpenAIChat(base_url=base_url)) as model:
            problem = (await failure_of(model, replace(request(HI), fail_fast=True))).problem
        over.set()
    assert (problem.error_type, problem.details["deadline"]) == ("timeout", "first_byte")
    assert problem.error.startswith("no answer within 0.1 s")


async def test_a_server_that_does_not_take_the_connection_is_given_up_at_the_connect_deadline() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        sockets = [socket.socket() for _ in range(3)]
        for connection in sockets:
            connection.setblocking(False)
            connection.connect_ex(full.getsockname())
        sleeps = SleepRecorder()
        base_url = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
        model = OpenAIChat(
            base_url=base_url, deadlines=Deadlines(connect_s=0.05), retry=Retry(attempts=2), sleep=sleeps
        )
        async with open_model(model):
            problem = (await failure_of(model, request(HI))).problem
        for connection in sockets:
            connection.close()
    assert (problem.error_type, problem.details["deadline"], len(sleeps.durations_s)) == ("timeout", "connect", 1)


async def test_a_reader_that_takes_its_time_is_not_taken_for_a_silent_provider() -> None:
    """The second stream, which does fall silent, is given up while the first one's reader is busy."""
    steps = [asyncio.Event(), asyncio.Event(), asyncio.Event()]
    pieces = [chunk(content="b"), chunk(content="c") + STOP + DONE]

    async def handler(received: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(received)
        await response.write(chunk(content="a"))
        for step in steps:
            await step.wait()
            if pieces:
                await response.write(pieces.pop(0))
        return response

    deadlines = Deadlines(idle_s=0.05)
    async with serving(handler) as base_url, open_model(OpenAIChat(base_url=base_url, deadlines=deadlines)) as model:
        slow = model.stream(request(HI))
        await anext(slow)
        steps[0].set()
        assert isinstance(await anext(slow), TextAppended)
        pieces.insert(0, b": the silent one gets no more than this\n\n")
        silent = await failure_of(model, request(HI))
        assert silent.problem.details["deadline"] == "idle"
        steps[1].set()
        remaining = [event async for event in slow]
        steps[2].set()
    assert isinstance(remaining[-1], TurnEnded)
