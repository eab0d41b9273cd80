"""The keyword arguments that `run`, `ask` and `execute` share reach the run."""

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


async def test_a_misspelt_option_is_refused_before_anything_starts() -> None:
    async with open_yard([]) as yard:
        with pytest.raises(TypeError, match="modle"):
            yard.run("go", modle="ollama:qwen3")  # pyright: ignore[reportCallIssue]
