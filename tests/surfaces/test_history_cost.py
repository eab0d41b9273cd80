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
from toolyard.testing import Scripted, say

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


@ENDPOINTS
async def test_a_message_of_a_history_takes_few_function_calls(ask: Ask) -> None:
    async def count_function_calls(http: ApiClient, messages: int) -> int:
        calls = 0

        def count_calls(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count_calls)
        try:
            await ask(http, messages)
        finally:
            sys.setprofile(None)
        return calls

    async with open_api_client(Scripted(lambda _: say("ok")), limits=LIMITS, windows=WINDOW) as http:
        await ask(http, 4)
        assert (
            await count_function_calls(http, MANY) - await count_function_calls(http, 4)
        ) / MANY <= MAX_FUNCTION_CALLS
