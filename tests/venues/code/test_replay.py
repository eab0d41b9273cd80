"""Programs that go on after their process has ended: run again from the start, with the results of the log."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from support import TEST_TIMEOUT_S, collect_events, get_results, wait_until
from toolyard import Caller, Context, Tool, Yard, tool
from toolyard.core.conversation.events import CallEnded, CallStarted, Event, RunEnded, RunSuspended
from toolyard.core.items import Call, Result, UserMessage
from toolyard.core.ports import Failure, ModelRequest, ProgramCall, ProgramResult, RecordedCall, Value
from toolyard.core.settings.limits import Limits
from toolyard.stores.sqlite.store import SqliteStore
from toolyard.testing import Scripted, Turn, call, say
from toolyard.venues.code import CodeVenue
from toolyard.venues.code.venue import MAX_CRASHES
from venues.code.shop import ProgramShop, get_program_result


def _script(code: str) -> list[Turn]:
    return [call("run_code", code=code), say("ok")]


async def _wait_for(events: AsyncIterator[Event], kind: type[Event]) -> None:
    async for event in events:
        if isinstance(event, kind):
            return
    raise AssertionError(f"no {kind.__name__} came")


async def _read_results(store: str) -> list[Result]:
    opened = await SqliteStore.open(Path(store.removeprefix("sqlite:///")))
    try:
        entries = await opened.read("c")
    finally:
        await opened.close()
    return get_results([entry.event for entry in entries])


async def test_a_program_that_waits_for_a_person_goes_on_in_another_process(tmp_path: Path) -> None:
    store, shop = f"sqlite:///{tmp_path}/yard.db", ProgramShop()
    code = "a = await add(item='a')\nb = await refund(order=a)\n[a, b, await add(item='c')]"
    async with Yard(tools=shop.tools, model=Scripted(_script(code)[:1]), store=store, code=True) as yard:
        await _wait_for(aiter(yard.run("go", conversation="c")), RunSuspended)
    async with Yard(tools=shop.tools, model=Scripted([say("ok")]), store=store, code=True) as yard:
        state = await yard.service.conversations.view("c")
        (asked,) = state.calls_in("asking")
        await yard.approve("c", asked.call.id)
        async for item in await yard.follow("c"):
            if isinstance(getattr(item, "event", None), RunEnded):
                break
    assert shop.actions == ["add a", "refund added a 1", "add c"]
    result = get_program_result(await _read_results(store))
    assert result.content == '{"value":["added a","refunded added a","added c"]}'


async def test_a_program_whose_call_takes_long_gives_its_sandbox_back_and_makes_no_call_twice() -> None:
    """There are four sandboxes: the fifth program runs once one of the others has given its own back."""
    shop = ProgramShop()
    slow = "a = await add(item='a')\n[a, await hold(name='b')]"

    def choose(request: ModelRequest) -> Turn:
        last = request.history[-1]
        return call("run_code", code=last.text) if isinstance(last, UserMessage) else say("ok")

    async with Yard(tools=shop.tools, model=Scripted(choose), code=True) as yard:
        running = [asyncio.create_task(collect_events(yard.run(slow))) for _ in range(4)]
        await wait_until(lambda: shop.actions.count("hold b") == 4)
        await collect_events(yard.run("1 + 1"))
        shop.gate.set()
        results = [get_program_result(get_results(await task)) for task in running]
    assert [result.content for result in results] == ['{"value":["added a","b"]}'] * 4
    assert sorted(shop.actions) == ["add a"] * 4 + ["hold b"] * 4


async def test_results_are_given_again_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    """What a program prints tells in which order it was given results: it is the same after a replay."""
    store = f"sqlite:///{tmp_path}/yard.db"
    gates = {name: asyncio.Event() for name in "abc"}
    ran: list[str] = []

    @tool
    async def hold(name: str) -> str:
        """Wait for the test."""
        ran.append(name)
        await gates[name].wait()
        return name

    @tool(approval="ask")
    async def refund(order: str) -> str:
        """Refund an order."""
        return order

    code = """
import asyncio
async def one(name):
    print(await hold(name=name))
    return name
await asyncio.gather(one("a"), one("b"), one("c"), refund(order="7"))
"""
    async with Yard(tools=[hold, refund], model=Scripted(_script(code)[:1]), store=store, code=True) as yard:
        events = aiter(yard.run("go", conversation="c"))
        await _wait_for(events, CallStarted)  # a run starts when it is read
        await wait_until(lambda: len(ran) == 3)
        for name in "cab":
            gates[name].set()
            await _wait_for(events, CallEnded)
        await _wait_for(events, RunSuspended)
    async with Yard(tools=[hold, refund], model=Scripted([say("ok")]), store=store, code=True) as yard:
        (asked,) = (await yard.service.conversations.view("c")).calls_in("asking")
        await yard.approve("c", asked.call.id)
        async for item in await yard.follow("c"):
            if isinstance(getattr(item, "event", None), RunEnded):
                break
    assert sorted(ran) == ["a", "b", "c"]
    result = get_program_result(await _read_results(store))
    assert result.content == '{"value":["a","b","c","7"],"printed":"c\\na\\nb\\n"}'


class RecordedCalls:
    """The calls of a program as a log has them: all have ended, each with its own text."""

    other_tools: Sequence[Tool] = ()
    limits = Limits()

    def __init__(self, *recorded: RecordedCall, seen: int) -> None:
        self._recorded = recorded
        self.recorded_seen = seen
        self.requested: list[str] = []
        self.tools: Mapping[str, Tool] = {name: Tool(name=name) for name in ("read", "write")}

    def reload(self) -> None: ...

    def find_recorded(self, position: int) -> RecordedCall | None:
        return self._recorded[position] if position < len(self._recorded) else None

    def note_printed(self, text: str) -> None: ...

    def request(self, calls: Sequence[ProgramCall], seen: int) -> None:
        self.requested += [call.tool for call in calls]

    async def wait_result(self, number: int, max_wait_s: float | None) -> ProgramResult | None:
        return ProgramResult(number, "ok", value=f"result {number}")


class SlowCalls(RecordedCalls):
    """Calls that have been asked for and do not end."""

    async def wait_result(self, number: int, max_wait_s: float | None) -> ProgramResult | None:
        try:
            async with asyncio.timeout(max_wait_s):
                return await asyncio.get_running_loop().create_future()
        except TimeoutError:
            return None


class CrashingCalls(RecordedCalls):
    """Calls during which the sandbox of the program is killed, so many times."""

    def __init__(self, crashes: int) -> None:
        super().__init__(seen=-1)
        self.crashes = crashes
        self.starts = 0

    def reload(self) -> None:
        """Know the calls of earlier sandboxes, as the log does."""
        self.starts += 1
        self._recorded = tuple(_recorded(name, position, id=position) for position, name in enumerate(self.requested))
        self.recorded_seen = len(self._recorded) - 1

    async def wait_result(self, number: int, max_wait_s: float | None) -> ProgramResult | None:
        if number and self.crashes:
            self.crashes -= 1
            for pid in _list_children():
                os.kill(pid, signal.SIGKILL)
        return await super().wait_result(number, max_wait_s)


def _list_children() -> list[int]:
    """Return the processes of sandboxes that this process has started."""
    children = list[int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            name, _, fields = stat.read_text().rpartition(")")
            if "monty" in name and int(fields.split()[1]) == os.getpid():
                children.append(int(name.partition(" ")[0]))
    return children


def _recorded(tool: str, seen: int, **arguments: object) -> RecordedCall:
    return RecordedCall(Call(id="c", at=0.0, tool=tool, arguments=arguments), seen)


READ = _recorded("read", 0, id=1)


@pytest.mark.parametrize(
    ("code", "recorded", "seen", "complaint"),
    [
        ("await read(id=2)", (READ,), 0, "call 1 of the program was of read"),
        ("await write(id=1)", (READ,), 0, "call 1 of the program was of read"),
        ("1", (READ,), 0, "the program had called read here"),
        ("await read(id=1)\nawait read(id=1)", (READ, _recorded("write", 1)), 1, "call 2 of the program was of write"),
        ("await read(id=1)\n2", (READ, _recorded("write", 1)), 1, "the program had called write here"),
        (
            "import asyncio\nawait asyncio.gather(read(id=1), read(id=1))",
            (READ,),
            1,
            "the program called read when it was run again",
        ),
    ],
)
async def test_a_program_that_does_something_else_when_it_is_run_again_does_nothing_more(
    code: str, recorded: tuple[RecordedCall, ...], seen: int, complaint: str
) -> None:
    calls = RecordedCalls(*recorded, seen=seen)
    answer = await _run_alone(code, calls)
    assert isinstance(answer, Failure)
    assert answer.problem.error_type == "nondeterministic"
    assert complaint in answer.problem.error
    assert calls.requested == []


async def test_a_program_goes_on_after_the_results_that_it_was_given_before_even_if_a_tool_is_gone() -> None:
    calls = RecordedCalls(READ, seen=0)
    calls.tools = {"write": Tool(name="write")}
    answer = await _run_alone("a = await read(id=1)\n[a, await write(text=a)]", calls)
    assert isinstance(answer, Value)
    assert answer.value == {"value": ["result 0", "result 1"]}
    assert calls.requested == ["write"]


async def test_a_program_that_waits_gives_its_sandbox_to_a_program_that_needs_one() -> None:
    venue, slow = CodeVenue(max_processes=1, idle_s=10 * TEST_TIMEOUT_S), SlowCalls(seen=-1)
    async with asyncio.timeout(TEST_TIMEOUT_S):
        waiting = asyncio.create_task(_run_in(venue, "await read(id=1)", slow))
        await wait_until(lambda: slow.requested == ["read"])
        answer = await _run_in(venue, "1 + 1", RecordedCalls(seen=-1))
        waiting.cancel()
        await asyncio.wait([waiting])
        await venue.close()
    assert isinstance(answer, Value)
    assert answer.value == {"value": 2}


async def _run_alone(code: str, calls: RecordedCalls) -> Value | Failure:
    venue = CodeVenue()
    try:
        return await _run_in(venue, code, calls)
    finally:
        await venue.close()


async def _run_in(venue: CodeVenue, code: str, calls: RecordedCalls) -> Value | Failure:
    context = Context(
        caller=Caller(),
        conversation="k",
        run_id="r",
        call_id="c",
        correlation_id="",
        idempotency_key="k:c",
        attempt=1,
        deadline=0.0,
        progress=lambda *_: None,
    )
    call = Call(id="c", at=1_700_000_000.0, tool="run_code", arguments={"code": code})
    return await venue.run_program(call, context, calls)


@pytest.mark.parametrize(("crashes", "starts"), [(2, 3), (9, 3)])
async def test_a_program_whose_sandbox_is_killed_is_run_again_twice_and_makes_no_call_again(
    crashes: int, starts: int
) -> None:
    calls = CrashingCalls(crashes)
    answer = await _run_alone("[await read(id=0), await read(id=1)]", calls)
    assert (calls.starts, calls.requested) == (starts, ["read", "read"])
    if crashes <= MAX_CRASHES:
        assert isinstance(answer, Value)
        assert answer.value == {"value": ["result 0", "result 1"]}
    else:
        assert isinstance(answer, Failure)
        assert (answer.problem.error_type, answer.problem.error) == (
            "execution_error",
            "the sandbox of the program crashed",
        )
