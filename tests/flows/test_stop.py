"""Stop reaches the model and the tools, leaves a sound history, and the next message works."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress

import anyio
import pytest

from support import (
    collect_events,
    find_history_faults,
    get_ending,
    get_problem,
    get_result,
    get_results,
    open_yard,
    wait_for_event,
)
from toolyard import Yard, tool
from toolyard.core.conversation.events import CallStarted, ModelDelta, RunQueued, TextAppended, TurnEnded, TurnFailed
from toolyard.core.errors import Refused
from toolyard.core.items import ModelText
from toolyard.core.ports import ModelRequest
from toolyard.testing import call, say, together


@pytest.mark.proves("004.stop")
async def test_stop_in_the_middle_of_a_tool_cancels_it_and_the_next_message_works() -> None:
    stopped = asyncio.Event()

    @tool
    async def hang() -> None:
        """Waits for ever."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise

    async with open_yard([call("hang"), say("fine")], [hang]) as yard:
        run = yard.run("go")
        await wait_for_event(run, CallStarted)
        await run.stop()
        events = await collect_events(run)
        assert stopped.is_set()
        assert get_problem(get_result(events)) == ("cancelled", "cancelled")
        assert "may have taken effect" in get_result(events).content
        assert (get_ending(events).ending, get_ending(events).detail) == ("cancelled", "stopped by local")
        assert await yard.ask("next", conversation=run.conversation) == "fine"
        assert not await find_history_faults(yard, run.conversation)


async def test_one_call_can_be_stopped_while_its_sibling_goes_on() -> None:
    gate = asyncio.Event()

    @tool
    async def wait(name: str) -> str:
        """Waits for the gate."""
        await gate.wait()
        return name

    async with open_yard([together(call("wait", name="a"), call("wait", name="b")), say("ok")], [wait]) as yard:
        run = yard.run("go")
        started: list[CallStarted] = []
        async for event in run:
            if isinstance(event, CallStarted):
                started.append(event)
            if len(started) == 2:
                break
        await run.stop(started[0].call_id)
        gate.set()
        events = await collect_events(run)
        outcomes = {result.call_id: result.outcome for result in get_results(events)}
        assert outcomes == {started[0].call_id: "cancelled", started[1].call_id: "ok"}
        assert get_ending(events).ending == "done"


class EndlessTextModel:
    """A model that begins to talk and does not end."""

    def __init__(self) -> None:
        self.closed = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        try:
            yield TextAppended(turn=request.turn, offset=0, text="Once upon ")
            yield TextAppended(turn=request.turn, offset=10, text="a time")
            await asyncio.Event().wait()
        finally:
            self.closed = True

    async def close(self) -> None: ...


async def test_stop_in_the_middle_of_an_answer_closes_the_model_and_keeps_what_was_said() -> None:
    model = EndlessTextModel()
    async with asyncio.timeout(20), Yard(model=model) as yard:
        run = yard.run("tell me")
        async for event in run:
            if isinstance(event, TextAppended) and event.offset == 10:
                await run.stop()
            if isinstance(event, TurnEnded):
                assert event.finish == "cancelled"
        assert model.closed
        last = (await yard.history(run.conversation))[-1]
        assert isinstance(last, ModelText) and last.text == "Once upon a time"


async def test_a_thread_that_ignores_the_stop_is_abandoned_and_its_call_still_ends() -> None:
    release, entered = threading.Event(), threading.Event()

    @tool
    def block() -> str:
        """Holds its thread."""
        entered.set()
        release.wait(20)
        return "too late"

    async with open_yard([call("block")], [block]) as yard:
        run = yard.run("go")
        await wait_for_event(run, CallStarted)
        await asyncio.to_thread(entered.wait, 20)
        await run.stop()
        call_result = get_result(await collect_events(run))
        assert get_problem(call_result) == ("cancelled", "cancelled") and "may have taken effect" in call_result.content
        release.set()


async def test_an_async_tool_that_swallows_its_cancellation_is_abandoned() -> None:
    release = asyncio.Event()

    @tool(timeout_s=0.05)
    async def stubborn() -> str:
        """Does not listen."""
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    async with open_yard([call("stubborn"), say("ok")], [stubborn]) as yard:
        assert get_result(await collect_events(yard.run("go"))).outcome == "timeout"
        release.set()


async def test_interrupt_stops_the_run_in_front_and_takes_its_place() -> None:
    @tool
    async def hang() -> None:
        """Waits for ever."""
        await asyncio.Event().wait()

    async with open_yard([call("hang"), say("ok")], [hang]) as yard:
        first = yard.run("one", conversation="c")
        await wait_for_event(first, CallStarted)
        second = await collect_events(yard.run("two", conversation="c", interrupt=True))
        assert get_ending(second).ending == "done"
        assert get_ending(await collect_events(first)).ending == "cancelled"
        assert not await find_history_faults(yard, "c")


async def test_stopping_where_nothing_runs_is_refused() -> None:
    async with open_yard([say("ok")]) as yard:
        run = yard.run("go")
        await collect_events(run)
        with pytest.raises(Refused, match="has ended or does not exist"):
            await run.stop()


async def test_leaving_the_iteration_does_not_stop_the_run() -> None:
    done = asyncio.Event()

    @tool
    async def work() -> str:
        """Works on."""
        done.set()
        return "worked"

    async with open_yard([call("work"), say("ok")], [work]) as yard:
        run = yard.run("go")
        await wait_for_event(run, RunQueued)
        await done.wait()
        assert get_result(await collect_events(run)).content == "worked"


@pytest.mark.parametrize(
    "way", ["then waits", "then returns", "raises", "in a group", "later, from elsewhere", "leaves a scope open"]
)
async def test_a_tool_that_cancels_its_own_task_ends_at_once(way: str) -> None:
    """Only the tool wants its task to stop: nobody else ends the call, and it must not hang until the run's limit."""

    @tool
    async def give_up() -> str:
        """Cancels itself."""
        task = asyncio.current_task()
        assert task is not None
        if way == "leaves a scope open":
            scope = anyio.CancelScope()
            scope.__enter__()
            scope.cancel()
            return "done all the same"
        if way == "raises":
            raise asyncio.CancelledError
        if way == "later, from elsewhere":
            asyncio.get_running_loop().call_soon(task.cancel)
        else:
            task.cancel()
        if way == "then returns":
            return "done all the same"
        if way == "in a group":
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(0))
        await asyncio.Event().wait()
        return "never"

    async with open_yard([call("give_up"), say("sorry")], [give_up]) as yard:
        events = await collect_events(yard.run("go"))
        assert get_ending(events).ending == "done"
        if way != "leaves a scope open":  # then any outcome will do: the run must end
            assert get_result(events).outcome == ("ok" if way == "then returns" else "cancelled")


@pytest.mark.parametrize("rule", ["idempotent", "none"])
async def test_a_tool_that_swallows_its_own_cancellation_is_ended_by_its_deadline(rule: str) -> None:
    @tool(timeout_s=0.05, retries=0, idempotent=rule == "idempotent")
    async def stubborn() -> str:
        """Cancels itself, takes no notice and hangs."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        await asyncio.Event().wait()
        return "never"

    async with open_yard([call("stubborn"), say("sorry")], [stubborn]) as yard:
        events = await collect_events(yard.run("go"))
        assert (get_ending(events).ending, get_problem(get_result(events))) == ("done", ("timeout", "timeout"))
