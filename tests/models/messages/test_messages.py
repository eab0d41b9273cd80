"""The Messages wire over real connections: turns back and forth, keys and headers, errors in the provider's words."""

import asyncio
import json

import pytest

from support import collect_events, get_ending, get_result, join_text
from toolyard import Yard, tool
from toolyard.core.conversation.events import TurnEnded
from toolyard.core.conversation.history import History
from toolyard.core.errors import Misconfigured
from toolyard.core.items import Call, Item, Result
from toolyard.core.settings.models.options import Options
from toolyard.core.tools.definition import Tool
from toolyard.models.chat.model import Retry
from toolyard.models.fallback import ConfiguredModel
from toolyard.models.messages import Anthropic
from toolyard.models.resolver import ModelSettings
from wire.local import NOW, CountingClock, SleepRecorder, events_of, failure_of, offer, open_model, request, user
from wire.messages_streams import encode_search, encode_search_result
from wire.strict import Reply
from wire.strict_messages import (
    StrictMessages,
    asks,
    encode_end,
    encode_start,
    encode_text,
    encode_thinking,
    encode_tool_use,
    refuses,
    says,
)

HI: list[Item] = [user("hi")]
KEY = "sk-ant-abcdefgh12345678"


def answer(call: Call) -> Result:
    return Result(id=f"{call.id}.result", at=NOW, call_id=call.id, tool=call.tool, outcome="ok", content="3")


async def test_turns_go_back_and_forth_with_a_strict_provider_whatever_the_model_asks_for() -> None:
    """Arguments that are broken, names that are none, thoughts that want to come back, a search that pauses."""
    odd = asks(("add", '{"a":1,}'), ("add", '{"a": 1, "b'), ("", "{}"), ("no such/tool", "[]"), thinking="Hm")
    pauses = Reply(
        packets=[encode_start(), encode_thinking(0, "Let me see"), encode_search(1), encode_end("pause_turn")]
    )
    goes_on = Reply(
        packets=[encode_start(), encode_search_result(0, "srvtoolu_1"), encode_text(1, "So. "), encode_end()]
    )
    mixed = [
        encode_start(),
        encode_thinking(0, "Both"),
        encode_search(1, "srvtoolu_2"),
        encode_tool_use(2, "toolu_9", "add", "{}"),
        encode_end("tool_use"),
    ]
    last_reply = Reply(
        packets=[encode_start(), encode_search_result(0, "srvtoolu_2"), encode_text(1, "Done."), encode_end()]
    )
    script = [odd, odd, asks(("add", {"a": 1}), text="Again."), pauses, goes_on, Reply(packets=mixed), last_reply]
    strict = StrictMessages(*script, says("And?"))
    tools = offer(Tool(name="add"), Tool(name="web_search", venue="provider"))
    memo, clock, history = dict[str, object](), CountingClock(), History(HI)
    async with (
        strict.serving() as base_url,
        open_model(ConfiguredModel(Anthropic(base_url=base_url), Options(thinking=2_000))) as model,
    ):
        for number in range(8):
            model_request = request(history, system="You add.", tools=tools, memo=memo, clock=clock)
            last = (await events_of(model, model_request))[-1]
            assert isinstance(last, TurnEnded), last
            history = history.plus(last.items)
            history = history.plus([answer(item) for item in last.items if isinstance(item, Call) and not item.ran_at])
            if last.finish == "stop":
                history = history.plus([user("more", f"u{number}")])
    assert (strict.refusals, strict.replies) == ([], [])
    calls = [item for item in history if isinstance(item, Call) and not item.ran_at]
    assert [bool(call.unreadable) for call in calls] == [False, True, False, True] * 2 + [False] * 2
    assert [asked.thinking is not None for asked in strict.requests] == [True] * 8


async def test_the_key_the_version_and_the_headers_are_sent_to_whatever_base_url() -> None:
    strict = StrictMessages(says("ok"), says("ok"))
    async with strict.serving() as base_url:
        for address in (base_url, base_url.removesuffix("/v1") + "/"):
            model = Anthropic(base_url=address, api_key=f" {KEY}\n", headers={"anthropic-beta": "x"}, model="m-7")
            async with open_model(model):
                await events_of(model, request(HI, correlation_id="cor-1"))
    for sent in strict.headers:
        assert (sent["x-api-key"], sent["anthropic-version"]) == (KEY, "2023-06-01")
        assert (sent["anthropic-beta"], sent["X-Correlation-ID"]) == ("x", "cor-1")
    assert [asked.model for asked in strict.requests] == ["m-7", "m-7"]


@pytest.mark.parametrize(
    ("reply", "error_type", "attempts"),
    [
        (refuses(400, "bad thing", request_id="req_h"), "model_error", 1),
        (refuses(401, f"bad thing {KEY}", "authentication_error", request_id="req_h"), "model_error", 1),
        (refuses(429, "bad thing", "rate_limit_error", request_id="req_h"), "rate_limited", 2),
        (refuses(529, "bad thing", "overloaded_error", request_id="req_h"), "unavailable", 2),
        (refuses(500, "bad thing", "api_error", request_id="req_h"), "unavailable", 2),
        (refuses(504, "bad thing", "timeout_error", request_id="req_h"), "timeout", 2),
    ],
)
async def test_an_error_is_told_in_the_providers_words_with_its_request_id(
    reply: Reply, error_type: str, attempts: int
) -> None:
    strict = StrictMessages(*[reply] * attempts)
    async with strict.serving() as base_url:
        model = Anthropic(base_url=base_url, api_key=KEY, retry=Retry(attempts=2), sleep=SleepRecorder())
        async with open_model(model):
            problem = (await failure_of(model, request(HI))).problem
    assert (problem.error_type, len(strict.bodies)) == (error_type, attempts)
    assert "bad thing" in problem.error and problem.details["request_id"] == "req_h"
    assert problem.details["provider"] == "anthropic"
    assert KEY not in json.dumps([problem.error, problem.details])


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_a_run_of_the_whole_loop_with_a_search_that_pauses_and_a_tool_of_ours() -> None:
    strict = StrictMessages(
        Reply(packets=[encode_start(), encode_text(0, "I look. "), encode_search(1), encode_end("pause_turn")]),
        Reply(
            packets=[
                encode_start(),
                encode_search_result(0, "srvtoolu_1"),
                encode_tool_use(1, "x", "add", '{"a":1,"b":2}'),
                encode_end("tool_use"),
            ]
        ),
        says("It is 3."),
    )
    async with (
        asyncio.timeout(20),
        strict.serving() as base_url,
        Yard(tools=[add], model=Anthropic(base_url=base_url, model="m")) as yard,
    ):
        events = await collect_events(yard.run("1 + 2?"))
    assert strict.refusals == []
    assert get_ending(events).ending == "done"
    assert get_result(events).content == "3"
    assert join_text(events) == "I look. It is 3."


@pytest.mark.proves("002.native-not-intercepted", "002.native-one-request")
async def test_a_call_that_the_provider_ran_is_not_run_again() -> None:
    strict = StrictMessages(
        Reply(
            packets=[
                encode_start(),
                encode_search(0),
                encode_search_result(1, "srvtoolu_1"),
                encode_text(2, "So."),
                encode_end(),
            ]
        )
    )
    async with (
        asyncio.timeout(20),
        strict.serving() as base_url,
        Yard(tools=[add], model=Anthropic(base_url=base_url, model="m")) as yard,
    ):
        events = await collect_events(yard.run("so?"))
    assert len(strict.bodies) == 1
    assert [event for event in events if "Call" in type(event).__name__] == []
    assert join_text(events) == "So."


async def test_a_name_leads_to_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    model = ModelSettings().make_model("anthropic:claude-sonnet-4-5")
    assert isinstance(model, Anthropic)
    await model.close()
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(Misconfigured, match="ANTHROPIC_API_KEY"):
        ModelSettings().make_model("anthropic:claude-sonnet-4-5")
