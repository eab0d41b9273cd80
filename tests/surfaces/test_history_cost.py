"""A long history that a request brings along: how much work each message is, and that others run meanwhile."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from types import FrameType

import pytest

from surfaces.api_client import ApiClient, Json, open_api_client
from surfaces.app_client import PATH
from toolyard import Limits
from toolyard.core.items import Item, Result
from toolyard.surfaces.openai.responses.parse import InputReader
from toolyard.surfaces.shared.history import read_history
from toolyard.testing import Scripted, say
from wire.local import CountingClock

MANY = 5000
MAX_FUNCTION_CALLS = 14
"""For each message, on the way from the body to the model; before it was read in one pass there were 34 and 48."""
LIMITS = Limits(turns_per_request=MANY, turns_per_conversation=MANY)
WINDOW = {"given": 10**9}


def build_history(messages: int) -> list[Json]:
    """Return a history of requests, each with a call, its result and an answer."""
    history: list[Json] = []
    for number in range(messages // 4):
        function = {"name": "add_to_cart", "arguments": f'{{"code": "M{number}"}}'}
        history += [
            {"role": "user", "content": f"Please put {number} bottles of milk into my cart."},
            {"role": "assistant", "content": None, "tool_calls": [{"id": f"c{number}", "function": function}]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "ok"},
            {"role": "assistant", "content": "There they are."},
        ]
    return history


async def post_respond(http: ApiClient, messages: int) -> None:
    body = {"prompt": "go", "history": build_history(messages)}
    assert [event["type"] async for _, event in http.stream_post("/ai/respond", body)] == ["text.delta", "done"]


async def post_conversation(http: ApiClient, messages: int) -> None:
    body = {"messages": [*build_history(messages), {"role": "user", "content": "go"}]}
    status, answer, _ = await http.send_request("POST", PATH, body)
    assert (status, answer["stopReason"]) == (200, "done")


@pytest.fixture(autouse=True)
def log_as_a_server_does(caplog: pytest.LogCaptureFixture) -> None:
    """At the debug level the fields that were ignored are named, which takes another look at every message."""
    caplog.set_level(logging.INFO, "toolyard")


Ask = Callable[[ApiClient, int], Awaitable[None]]
ENDPOINTS = pytest.mark.parametrize("ask", [post_respond, post_conversation])


async def count_turns_of_others(work: Awaitable[object]) -> int:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    other = asyncio.create_task(count_turns())
    await work
    other.cancel()
    return turns


@ENDPOINTS
async def test_others_get_their_turn_while_a_long_history_is_read(ask: Ask) -> None:
    async with open_api_client(Scripted(lambda _: say("ok")), limits=LIMITS, windows=WINDOW) as http:
        await ask(http, 4)
        few = await count_turns_of_others(ask(http, 4))
        assert await count_turns_of_others(ask(http, MANY)) >= few + MANY // 500


async def test_others_get_their_turn_while_a_long_conversation_is_shown() -> None:
    async def keep(messages: int) -> str:
        body = {"prompt": "go", "history": build_history(messages), "keep": True}
        *_, (_, done) = [event async for event in http.stream_post("/ai/respond", body)]
        return f"/conversations/{done['conversation_id']}"

    async def show(path: str, messages: int) -> None:
        status, answer, _ = await http.send_request("GET", path)
        assert (status, len(answer["conversation"]["messages"])) == (200, messages + 2)

    async with open_api_client(Scripted(lambda _: say("ok")), limits=LIMITS, windows=WINDOW) as http:
        short, long = await keep(4), await keep(MANY)
        few = await count_turns_of_others(show(short, 4))
        assert await count_turns_of_others(show(long, MANY)) >= few + MANY // 500


async def count_function_calls(work: Awaitable[object]) -> int:
    calls = 0

    def count_calls(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count_calls)
    try:
        await work
    finally:
        sys.setprofile(None)
    return calls


@ENDPOINTS
async def test_a_message_of_a_history_takes_few_function_calls(ask: Ask) -> None:
    async with open_api_client(Scripted(lambda _: say("ok")), limits=LIMITS, windows=WINDOW) as http:
        await ask(http, 4)
        assert (
            await count_function_calls(ask(http, MANY)) - await count_function_calls(ask(http, 4))
        ) / MANY <= MAX_FUNCTION_CALLS


def build_call(number: int) -> Json:
    return {"type": "function_call", "call_id": f"c{number}", "name": "add_to_cart", "arguments": "{}"}


def build_output(number: int) -> Json:
    return {"type": "function_call_output", "call_id": f"c{number}", "output": f"output {number}"}


def build_split_results(calls: int) -> list[Json]:
    """Return calls whose results come in two items each."""
    return [build(number) for build in (build_call, build_output, build_output) for number in range(calls)]


def build_late_result(calls: int) -> list[Json]:
    """Return calls with their results after a call whose result comes last."""
    later = [item for number in range(1, calls) for item in (build_call(number), build_output(number))]
    return [build_call(0), *later, build_output(0)]


@pytest.mark.parametrize("build", [build_split_results, build_late_result])
async def test_the_work_for_a_result_does_not_grow_with_the_history(build: Callable[[int], list[Json]]) -> None:
    def read(size: int) -> Awaitable[list[Item]]:
        return read_history(build(size), CountingClock(), InputReader().add, field="input")

    few, many = await count_function_calls(read(500)), await count_function_calls(read(1_000))
    assert many <= 2.1 * few
    results = [item.content for item in await read(3) if isinstance(item, Result)]
    if build is build_split_results:
        assert results == [f"output {number}\noutput {number}" for number in range(3)]
    else:
        assert results == ["output 1", "output 2", "output 0"]


def build_blocks(messages: int) -> list[Json]:
    """Return messages in Anthropic's shape with 1,000 calls or results each."""
    history: list[Json] = []
    for number in range(messages // 2):
        ids = [f"toolu_{number}_{index}" for index in range(1_000)]
        calls: list[Json] = [{"type": "tool_use", "id": id, "name": "add_to_cart", "input": {}} for id in ids]
        results = [{"type": "tool_result", "tool_use_id": id, "content": "ok"} for id in ids]
        history += [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
    return history


async def test_others_get_their_turn_while_messages_of_many_blocks_are_read() -> None:
    async def count(messages: int) -> None:
        body = {"model": "default", "messages": [{"role": "user", "content": "go"}, *build_blocks(messages)]}
        assert (await http.send_request("POST", "/v1/messages/count_tokens", body))[0] == 200

    async with open_api_client([]) as http:
        await count(0)
        few = await count_turns_of_others(count(0))
        assert await count_turns_of_others(count(20)) >= few + 18
