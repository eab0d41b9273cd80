"""Options of a request reach the model in every turn of its run, also after a restart, and in no other run."""

import asyncio
from pathlib import Path

import pytest

from support import collect_events, find_history_faults, get_ending, open_yard, read_entries, wait_for_event
from toolyard import Caller, Run, Tool, Yard, tool
from toolyard.core.conversation.events import RunEnded, RunRequest, RunSuspended
from toolyard.core.errors import Invalid
from toolyard.core.items import TextPart, UserMessage
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options
from toolyard.testing import Scripted, call, say

SCHEMA: dict[str, object] = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
OPTIONS = Options(temperature=0.1, top_p=0.9, stop=("END",), seed=7, output_schema=SCHEMA, max_tokens=50)
SEARCH = Tool(name="search_products", venue="client")


@tool
def add(a: int) -> int:
    """Add one."""
    return a + 1


def start_run(yard: Yard, options: Options, *app_tools: Tool) -> Run:
    item = UserMessage(id="item_in", at=0.0, parts=(TextPart(text="go"),))
    request = RunRequest(app_tools=app_tools, options=options)
    start = yard.service.runs.build_start(Caller(user="local"), [item], request)
    return Run(yard.service, "c", start)


async def test_every_turn_of_the_run_has_the_options_and_the_next_run_has_none() -> None:
    model = Scripted([call("add", a=1), say('{"answer":"2"}'), say("hi")])
    async with asyncio.timeout(20), Yard(model=model, tools=[add]) as yard:
        await collect_events(start_run(yard, OPTIONS))
        await yard.ask("hello", conversation="c")
    assert [request.options for request in model.requests] == [OPTIONS, OPTIONS, DEFAULT_OPTIONS]


async def test_a_run_that_waited_during_a_restart_goes_on_with_its_options(tmp_path: Path) -> None:
    store, model = f"sqlite:///{tmp_path}/yard.db", Scripted([say('{"answer":"found"}')])
    async with asyncio.timeout(20):
        async with Yard(model=Scripted([call("search_products")]), store=store) as yard:
            suspended, _ = await wait_for_event(start_run(yard, OPTIONS, SEARCH), RunSuspended)
        async with Yard(model=model, store=store) as yard:
            await yard.deliver("c", suspended.waiting_for[0], "milk")
            assert isinstance((await read_entries(yard, "c"))[-1].event, RunEnded)
    assert [request.options for request in model.requests] == [OPTIONS]


async def test_a_bad_option_is_refused_before_the_run_is_queued() -> None:
    async with open_yard([say("hi")]) as yard:
        with pytest.raises(Invalid, match="temperature must be from 0 to 2"):
            await collect_events(start_run(yard, Options(temperature=3)))
        assert await yard.ask("hello", conversation="c") == "hi"


async def test_an_option_that_the_model_does_not_have_ends_the_run_in_words() -> None:
    async with asyncio.timeout(20), Yard(model="toolyard:offline") as yard:
        ended = get_ending(await collect_events(start_run(yard, Options(output_schema=SCHEMA))))
        assert ended.ending == "failed"
        assert ended.detail.startswith("unsupported_option: the option output_schema cannot be used here")
        assert await yard.ask("hello", conversation="c")
        assert not await find_history_faults(yard, "c")
