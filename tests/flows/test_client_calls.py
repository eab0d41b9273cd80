"""Calls that the application runs: parked, delivered once, in any order, or ended by their deadline."""

import asyncio
from pathlib import Path

import pytest

from hostile_schemas import chain
from support import (
    STAFF,
    collect_events,
    find_history_faults,
    get_ending,
    get_problem,
    get_result,
    get_results,
    open_yard,
    read_entries,
    wait_for_event,
)
from toolyard import Caller, Run, Tool, ToolError, Yard, tool
from toolyard.core.conversation.events import CallEnded, CallParked, RunEnded, RunRequest, RunSuspended
from toolyard.core.errors import Invalid, Refused
from toolyard.core.items import TextPart, UserMessage
from toolyard.testing import Scripted, call, say, together

SCHEMA: dict[str, object] = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
SEARCH = Tool(name="search_products", description="Search.", parameters=SCHEMA, venue="client")
NAVIGATE = Tool(name="navigate", venue="client", client_s=0.05)


async def test_the_applications_result_is_what_the_model_reads() -> None:
    async with open_yard([call("search_products", query="milk"), say("found")]) as yard:
        run = yard.run("find milk", app_tools=[SEARCH])
        parked, _ = await wait_for_event(run, CallParked)
        assert parked.kind == "client"
        await yard.deliver(run.conversation, parked.call_id, {"products": ["Full Cream Milk"]})
        assert get_result(await collect_events(run)).content == '{"products":["Full Cream Milk"]}'


async def test_each_call_takes_exactly_one_result() -> None:

    script = [together(call("search_products", query="a"), call("search_products", query="b")), say("ok")]
    async with open_yard(script) as yard:
        run = yard.run("find", app_tools=[SEARCH], caller=STAFF)
        suspended, _ = await wait_for_event(run, RunSuspended)
        first, second = suspended.waiting_for
        await yard.deliver(run.conversation, second, "b", caller=STAFF)
        for wrong in (second, "call_forged"):
            with pytest.raises(Refused):
                await yard.deliver(run.conversation, wrong, "again", caller=STAFF)
        with pytest.raises(Refused, match="may not decide"):
            await yard.deliver(run.conversation, first, "a")
        await yard.deliver(run.conversation, first, error=ToolError("sold out", "not_found"), caller=STAFF)
        results_by_id = {result.call_id: result for result in get_results(await collect_events(run))}
        assert results_by_id[second].content == "b" and get_problem(results_by_id[first]) == ("error", "not_found")
        with pytest.raises(Refused):
            await yard.deliver(run.conversation, first, "late", caller=STAFF)
        assert not await find_history_faults(yard, run.conversation)


async def test_calls_on_the_server_run_while_the_application_is_awaited() -> None:
    @tool
    async def stock() -> int:
        """How many."""
        return 7

    async with open_yard([together(call("search_products", query="a"), call("stock")), say("ok")], [stock]) as yard:
        run = yard.run("go", app_tools=[SEARCH])
        ended, _ = await wait_for_event(run, CallEnded)
        assert ended.result.content == "7"
        suspended, _ = await wait_for_event(run, RunSuspended)
        await yard.deliver(run.conversation, suspended.waiting_for[0], "milk")
        assert [result.content for result in get_results(await collect_events(run))] == ["7", "milk"]


async def test_a_call_that_the_application_never_answers_ends_as_a_timeout() -> None:
    async with open_yard([call("navigate"), say("sorry")]) as yard:
        run = yard.run("go", app_tools=[NAVIGATE])
        assert get_problem(get_result(await collect_events(run))) == ("timeout", "timeout")


async def test_a_server_tool_of_the_same_name_wins() -> None:
    @tool
    async def search_products(query: str) -> str:
        """The server's own."""
        return f"server {query}"

    async with open_yard([call("search_products", query="milk"), say("ok")], [search_products]) as yard:
        run = yard.run("go", app_tools=[SEARCH])
        assert get_result(await collect_events(run)).content == "server milk"


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (Tool(name="a.b/c", venue="client"), "cannot be a tool's name"),
        (Tool(name="x", venue="client", parameters={"type": "objekt"}), "must be a JSON Schema of type object"),
        (Tool(name="x", venue="client", parameters={"$ref": "#/nowhere"}), "not a valid JSON Schema"),
        (Tool(name="x", venue="client", parameters=chain(24)), "expands to more than 20,000 schemas"),
        (Tool(name="x", venue="client", parameters={"$ref": "http://127.0.0.1:9/s.json"}), "not a valid JSON Schema"),
    ],
)
async def test_an_application_tool_that_cannot_be_offered_is_refused_with_the_reason(bad: Tool, why: str) -> None:
    async with open_yard([]) as yard:
        with pytest.raises(Invalid, match=why):
            await yard.ask("go", app_tools=[bad])


async def test_a_parked_call_survives_a_restart_and_takes_its_result(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/yard.db"

    async def before() -> tuple[str, str]:
        async with Yard(model=Scripted([call("search_products", query="milk")]), store=store) as yard:
            run = yard.run("go", app_tools=[SEARCH])
            suspended, _ = await wait_for_event(run, RunSuspended)
            return run.conversation, suspended.waiting_for[0]

    async def after(conversation: str, call_id: str) -> None:
        async with Yard(model=Scripted([say("found"), say("hi")]), store=store) as yard:
            await yard.deliver(conversation, call_id, "milk")
            assert await yard.ask("and now?", conversation=conversation) == "hi"
            assert not await find_history_faults(yard, conversation)

    await asyncio.wait_for(after(*(await before())), 20)


def _start_ending_on_expiry(yard: Yard, *tools: Tool) -> Run:
    item = UserMessage(id="item_in", at=0.0, parts=(TextPart(text="go"),))
    request = RunRequest(app_tools=tools, ends_on_expiry=True)
    start = yard.service.runs.build_start(Caller(user="local"), [item], request)
    return Run(yard.service, "c", start)


async def test_a_run_may_end_when_its_client_does_not_answer_without_asking_the_model_again() -> None:
    stopped = asyncio.Event()

    @tool
    async def work() -> str:
        """Works until it is cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    script = [together(call("navigate"), call("work"), call("search_products", query="a")), say("next")]
    async with open_yard(script, [work]) as yard:
        events = await collect_events(_start_ending_on_expiry(yard, NAVIGATE, SEARCH))
        ended = get_ending(events)
        assert (ended.ending, ended.detail) == ("cancelled", "the client did not return a result in time")
        assert stopped.is_set()
        assert {result.tool: result.outcome for result in get_results(events)} == {
            "navigate": "timeout",
            "work": "cancelled",
            "search_products": "cancelled",
        }
        assert await yard.ask("and now?", conversation="c") == "next"
        assert not await find_history_faults(yard, "c")


async def test_a_run_whose_client_was_gone_during_a_restart_ends_after_it(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/yard.db"
    async with asyncio.timeout(20):
        async with Yard(model=Scripted([call("navigate")]), store=store) as yard:
            await wait_for_event(_start_ending_on_expiry(yard, NAVIGATE), CallParked)
        async with Yard(model=Scripted([say("next")]), store=store) as yard:
            entries = await read_entries(yard, "c")
            ended = entries[-1].event
            assert isinstance(ended, RunEnded) and ended.ending == "cancelled"
            assert await yard.ask("and now?", conversation="c") == "next"
            assert not await find_history_faults(yard, "c")
