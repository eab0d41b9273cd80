"""From a typed function to a tool: its schema, its context, its threads."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from support import STAFF, collect_events, get_problem, get_result, open_yard, wait_for_event
from toolyard import Call, Caller, Context, Executor, tool
from toolyard.core.conversation.events import CallProgressed, CallStarted, Event
from toolyard.core.errors import Misconfigured
from toolyard.testing import call, say
from toolyard.venues.function import FunctionTool, as_tool
from toolyard.venues.function.threads import ThreadPool


class Unit(Enum):
    KG = "kg"
    L = "l"


@dataclass
class StoragePlace:
    shelf: str
    row: int = 1


class OrderLine(BaseModel):
    item: Annotated[str, Field(min_length=1)]
    unit: Unit = Unit.KG
    parent: "OrderLine | None" = None


@tool(examples=["order flour"], sources={"code": "search"})
async def order(
    orders: list[OrderLine],
    location: StoragePlace,
    day: date,
    how: Literal["fast", "slow"] = "slow",
    code: Annotated[str | None, Field(description="from search")] = None,
    *,
    context: Context,
) -> list[str]:
    """Order things."""
    assert (
        all(isinstance(order, OrderLine) for order in orders)
        and isinstance(location, StoragePlace)
        and isinstance(day, date)
    )
    return [f"{order.item} {order.unit.name}" for order in orders]


def test_a_signature_becomes_a_schema_without_the_context() -> None:
    schema = order.definition.parameters
    assert schema["required"] == ["orders", "location", "day"]
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert set(properties) == {"orders", "location", "day", "how", "code"}  # pyright: ignore[reportUnknownArgumentType]
    assert properties["how"] == {"enum": ["fast", "slow"], "type": "string", "default": "slow"}
    assert order.definition.description == "Order things."
    assert order.definition.examples == ("order flour",) and order.definition.sources == {"code": "search"}


async def test_arguments_arrive_as_the_functions_own_types() -> None:

    arguments: dict[str, object] = {
        "orders": [{"item": "flour"}, {"item": "milk", "unit": "l", "parent": {"item": "x"}}],
        "location": {"shelf": "A"},
        "day": "2026-11-15",
    }
    async with open_yard([call("order", **arguments), say("ok")], [order]) as yard:
        assert get_result(await collect_events(yard.run("go"))).content == '["flour KG","milk L"]'


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"orders": [{"item": ""}]}, "orders.0.item"),
        ({"orders": [{"item": "x", "parent": {"unit": "g"}}]}, "orders.0.parent"),
        ({"day": "soon"}, "day"),
        ({"how": "never"}, "how"),
        ({"extra": 1}, "extra"),
    ],
)
async def test_a_wrong_field_is_named_however_deep_it_lies(changes: dict[str, object], field: str) -> None:

    arguments: dict[str, object] = {"orders": [], "location": {"shelf": "A"}, "day": "2026-11-15", **changes}
    async with open_yard([call("order", **arguments), say("ok")], [order]) as yard:
        call_result = get_result(await collect_events(yard.run("go")))
        assert get_problem(call_result) == ("error", "validation_error") and field in call_result.content


async def test_deeply_nested_arguments_are_answered_not_crashed_on() -> None:
    deep: dict[str, object] = {"item": "x"}
    for _ in range(400):
        deep = {"item": "x", "parent": deep}

    arguments: dict[str, object] = {"orders": [deep], "location": {"shelf": "A"}, "day": "2026-11-15"}
    async with open_yard([call("order", **arguments), say("ok")], [order]) as yard:
        assert get_result(await collect_events(yard.run("go"))).outcome in ("ok", "error")


async def test_the_context_carries_caller_ids_deadline_and_progress() -> None:
    contexts: list[Context] = []

    @tool(timeout_s=7)
    async def look(context: Context) -> str:
        """Look at the context."""
        contexts.append(context)
        context.progress(1, total=2, message="half")
        context.progress(2, total=2)
        return "ok"

    async with open_yard([call("look"), say("ok")], [look]) as yard:
        run = yard.run("go", caller=STAFF, correlation_id="abc")
        progress: list[Event] = []
        async for event in run:
            if isinstance(event, CallProgressed):
                progress.append(event)
        (context,) = contexts
        assert context.caller == STAFF and context.correlation_id == "abc"
        assert context.run_id == run.id and context.conversation == run.conversation
        assert context.idempotency_key == f"{run.conversation}:{context.call_id}" and context.attempt == 1
        assert [(e.progress, e.message) for e in progress if isinstance(e, CallProgressed)] == [(1, "half"), (2, "")]


async def test_progress_may_be_reported_from_a_thread() -> None:
    @tool
    def work(context: Context) -> str:
        """Report from a thread."""
        context.progress(0.5)
        return "ok"

    async with open_yard([call("work"), say("ok")], [work]) as yard:
        progressed, run = await wait_for_event(yard.run("go"), CallProgressed)
        assert progressed.progress == 0.5
        await collect_events(run)


async def test_a_plain_function_is_a_tool_and_a_tool_is_still_a_function() -> None:
    @tool
    def double(x: int) -> int:
        """Twice."""
        return 2 * x

    def triple(x: int) -> int:
        """Thrice."""
        return 3 * x

    assert double(4) == 8
    async with open_yard([], [double, triple]) as yard:
        assert yard.tool_names == ["double", "triple", "read_result", "find_tools"]


def no_type(x: int) -> None: ...


del no_type.__annotations__["x"]


def with_star_args(*args: int) -> None: ...
def impossible(x: threading.Lock) -> None: ...


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (no_type, "has no type; write for example x: str"),
        (with_star_args, "ordinary named"),
        (impossible, "has no JSON form"),
    ],
)
def test_a_function_that_cannot_be_a_tool_says_what_to_change(function: object, why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        tool(function)  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_a_rule_of_the_wrong_type_is_refused_by_name() -> None:
    with pytest.raises(Misconfigured, match=r"timeout_s"):
        tool(timeout_s="soon")(lambda: None)  # pyright: ignore[reportArgumentType, reportCallIssue]


@pytest.mark.parametrize("result", [StoragePlace, OrderLine, "StoragePlace"])
def test_a_sentence_may_name_parameters_and_fields_of_a_declared_result(result: object) -> None:
    def store(what: str) -> object: ...

    store.__annotations__["return"] = result
    field = "item" if result is OrderLine else "shelf"
    sentence = f"Stored {{what}} in {{{field}}}."
    assert tool(says=sentence)(store).definition.says == (sentence,)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("Stored {wat}.", r"tool 'store': says has a slot 'wat', .* \(known: row, shelf, what\)"),
        (["Stored {what}.", "{qty} stored."], "slot 'qty'"),
        ("Stored {what:>10}.", "has a brace that is not part of a slot"),
        ("Stored {what.", "has a brace"),
    ],
)
def test_a_sentence_with_an_unknown_name_is_refused_when_the_tool_is_defined(says: list[str], why: str) -> None:
    def store(what: str) -> StoragePlace:
        return StoragePlace(what)

    with pytest.raises(Misconfigured, match=why):
        tool(says=says)(store)


def test_the_sentences_of_an_executor_are_checked_too() -> None:
    class Store(Executor):
        name = "store"
        says = "Stored {what}."

        def execute(self, call: Call, context: Context) -> object: ...

    with pytest.raises(Misconfigured, match=r"slot 'what'.*\(known: none\)"):
        as_tool(Store)


async def test_sync_tools_run_side_by_side_in_threads_up_to_the_bound() -> None:
    async with asyncio.timeout(20):
        threads = ThreadPool(2)
        both, names = threading.Barrier(2), set[str]()

        def work() -> None:
            names.add(threading.current_thread().name + str(threading.get_ident()))
            both.wait(10)

        await asyncio.gather(*(threads.run(work) for _ in range(6)))
        assert len(names) == 2
        threads.close()


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


async def test_a_tool_that_hangs_takes_no_threads_of_other_tools(release: threading.Event) -> None:
    @tool(timeout_s=0.02)
    def block() -> None:
        """Hangs."""
        release.wait(20)

    @tool
    def fine() -> str:
        """Needs a thread."""
        return "ok"

    script = [step for name in ("block", "block", "block", "fine") for step in (call(name), say("ok"))]
    async with open_yard(script, [block, fine], threads=4) as yard:
        outcomes = [get_problem(get_result(await collect_events(yard.run("go")))) for _ in range(3)]
        assert outcomes == [("timeout", "timeout"), ("timeout", "timeout"), ("error", "unavailable")]
        assert get_result(await collect_events(yard.run("go"))).outcome == "ok"
        assert yard.service.tools.warnings() == [
            "2 synchronous call(s) hang past the deadline, each in a thread of its own"
        ]


async def test_a_caller_whose_calls_hang_takes_no_threads_of_other_callers(release: threading.Event) -> None:
    ann, bob = Caller(user="ann"), Caller(user="bob")

    def hanging(name: str) -> FunctionTool[..., object]:
        @tool(name=name, timeout_s=0.02)
        def block() -> None:
            """Hangs."""
            release.wait(20)

        return block

    @tool
    def fine() -> str:
        """Needs a thread."""
        return "ok"

    @tool
    async def quick() -> str:
        """Needs no thread."""
        return "ok"

    async with open_yard([], [*map(hanging, "abc"), fine, quick], threads=4) as yard:
        hung = [get_problem(get_result(await collect_events(yard.call(name, {}, caller=ann)))) for name in "abc"]
        assert hung == [("timeout", "timeout")] * 3
        refused = get_result(await collect_events(yard.call("fine", {}, caller=ann)))
        assert get_problem(refused) == ("error", "unavailable") and "was not started" in refused.content
        assert get_result(await collect_events(yard.call("fine", {}, caller=bob))).outcome == "ok"
        assert get_result(await collect_events(yard.call("quick", {}, caller=ann))).outcome == "ok"


async def test_a_call_that_waits_in_vain_for_a_thread_is_told_that_it_did_not_start(release: threading.Event) -> None:
    entered = threading.Semaphore(0)
    started = list[str]()

    def holding(name: str) -> FunctionTool[..., object]:
        @tool(name=name)
        def block() -> None:
            """Holds its thread, within its time."""
            entered.release()
            release.wait(20)

        return block

    @tool(timeout_s=0.1)
    def charge() -> None:
        """Would have an effect."""
        started.append("charge")

    async with open_yard([], [*map(holding, "ab"), charge], threads=2) as yard:
        holding_runs = [yard.call(name, {}, caller=Caller(user=name)) for name in "ab"]
        for run in holding_runs:
            await wait_for_event(run, CallStarted)
            await asyncio.to_thread(entered.acquire, timeout=20)
        waiting_result = get_result(await collect_events(yard.call("charge", {}, caller=Caller(user="ann"))))
        assert get_problem(waiting_result) == ("error", "unavailable")
        assert "was not started" in waiting_result.content and "effect" not in waiting_result.content
        release.set()
        for run in holding_runs:
            await collect_events(run)
        assert not started


async def test_threads_go_to_whoever_waits_longest_among_those_that_may_have_one(release: threading.Event) -> None:
    async with asyncio.timeout(20):
        threads, order = ThreadPool(4), list[str]()
        entered = threading.Semaphore(0)

        def hold() -> None:
            entered.release()
            release.wait(20)

        greedy = [asyncio.create_task(threads.run(hold, {"ann": 0.75})) for _ in range(5)]
        for _ in range(3):
            await asyncio.to_thread(entered.acquire, timeout=20)
        await threads.run(lambda: order.append("bob"), {"bob": 0.75})
        assert not entered.acquire(blocking=False), "one caller has three of four at most"
        greedy[3].cancel()
        release.set()
        await asyncio.gather(*greedy, return_exceptions=True)
        assert order == ["bob"] and [task.cancelled() for task in greedy] == [False, False, False, True, False]
        threads.close()
