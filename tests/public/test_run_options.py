"""The keyword arguments that `run`, `ask` and `execute` share reach the run."""

from collections.abc import Awaitable
from typing import cast

import pytest

from support import open_yard
from toolyard import Caller, Limits, Options, RunOptions
from toolyard.events import ModelText, RunQueued, UserMessage
from toolyard.testing import say

ANN = Caller(user="ann")


async def test_the_options_of_a_run_are_stored_with_it() -> None:
    options: RunOptions = {
        "caller": ANN,
        "conversation": "orders",
        "limits": Limits(turns_per_request=3),
        "options": Options(temperature=0.1),
        "ends_on_expiry": True,
        "tool_choice": "none",
        "language": "de",
    }
    async with open_yard([say("ok")]) as yard:
        run = yard.run("go", **options)
        assert run.conversation == "orders"
        (queued,) = [event async for event in run if isinstance(event, RunQueued)]
    assert queued.caller == ANN
    assert queued.limits == options.get("limits")
    assert queued.options == Options(temperature=0.1) and queued.ends_on_expiry
    assert (queued.tool_choice, queued.language) == ("none", "de")


async def test_ask_and_execute_take_the_options_of_run() -> None:
    options: RunOptions = {"caller": ANN, "conversation": "orders", "options": Options(seed=7)}
    async with open_yard([say("one"), say("two")]) as yard:
        assert await yard.ask("go", **options) == "one"
        assert (await yard.execute("go", **options)).text == "two"
        history = await yard.history("orders")
        entries = [item.text for item in history if isinstance(item, UserMessage | ModelText)]
    assert entries == ["go", "one", "go", "two"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("modle", r"run\(\) has no option 'modle'; did you mean model=…\?"),
        ("temperature", r"run\(\) has no option 'temperature'; did you mean options=Options\(temperature=…\)\?"),
        ("temperatur", r"did you mean options=Options\(temperature=…\)\?"),
        ("may_open", r"run\(\) has no option 'may_open'; it takes app_tools, caller, "),
        ("request", r"run\(\) has no option 'request'"),
        ("mcp_client", r"run\(\) has no option 'mcp_client'"),
    ],
)
async def test_an_unknown_option_is_refused_with_the_nearest_name(name: str, advice: str) -> None:
    wrong: dict[str, object] = {name: None}
    async with open_yard([]) as yard:
        for start in (yard.run, yard.ask, yard.execute):
            with pytest.raises(TypeError, match=advice):
                await cast("Awaitable[object]", start("go", **wrong))  # pyright: ignore[reportArgumentType, reportCallIssue]


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        (
            "options",
            {"temperature": 1},
            r"run\(options=…\) takes Options, not dict; write options=Options\(temperature=…\)",
        ),
        ("context", 5, r"run\(context=…\) takes Mapping, not int"),
        ("limits", {"turns_per_request": 1}, r"run\(limits=…\) takes Limits or None, not dict"),
        ("caller", "ann", r"run\(caller=…\) takes Caller, not str"),
        ("web_search", True, r"run\(web_search=…\) takes str, not bool"),
    ],
)
async def test_an_option_of_another_type_is_refused_with_the_right_one(name: str, value: object, advice: str) -> None:
    wrong: dict[str, object] = {name: value}
    async with open_yard([]) as yard:
        with pytest.raises(TypeError, match=advice):
            yard.run("go", **wrong)  # pyright: ignore[reportArgumentType, reportCallIssue]


async def test_a_conversation_is_not_opened_under_the_id_of_a_front_ends_thread() -> None:
    async with open_yard([]) as yard:
        for start in (yard.run, yard.ask, yard.execute):
            with pytest.raises(ValueError, match=r"'thread_1'\): ids that begin with 'thread_'"):
                await cast(Awaitable[object], start("go", conversation="thread_1"))
        assert list(await yard.history("thread_1")) == []
