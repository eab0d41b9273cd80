"""Figures of runs: what is counted where, and how exact a percentile is."""

from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postgres import create_database
from toolyard.core.caller import Caller
from toolyard.core.conversation.events import (
    CallEnded,
    CallStarted,
    Durable,
    Entry,
    RunEnded,
    RunQueued,
    RunStarted,
    TurnEnded,
    TurnStarted,
)
from toolyard.core.conversation.state import State
from toolyard.core.errors import StoreDown
from toolyard.core.items import Outcome, Problem, Result, Usage
from toolyard.core.settings.limits import Limits
from toolyard.core.store import FigureRow, Store
from toolyard.core.store.figures import (
    MAX_NAMES,
    OTHERS,
    STEPS_S,
    StepCounts,
    ToolCounts,
    add_time,
    compute_percentiles,
    select_step,
)
from toolyard.observability.figures import FigureRecorder
from toolyard.observability.overview import STEPS, Overview, build_overview
from toolyard.observability.telemetry import Observers
from toolyard.stores.memory import MemoryStore
from toolyard.stores.postgres import PostgresStore
from toolyard.stores.sqlite import SqliteStore

OWNERS = {"c": Caller(user="ann", tenant="acme"), "d": Caller(user="bob", tenant="acme"), "e": Caller(user="eve")}


STATES = {conversation: State(owner=owner) for conversation, owner in OWNERS.items()}


class Recording:
    """A process that records figures, and the entries that it observes."""

    def __init__(self, store: Store) -> None:
        self.spawned: list[Coroutine[None, None, None]] = []
        self.recorder = FigureRecorder(store, lambda: 0.0, self.spawned.append, STATES.get)

    def observe(self, conversation: str, at: float, *events: Durable) -> None:
        for event in events:
            entry = Entry(conversation=conversation, seq=1, at=at, event=event, run=f"{conversation}.r")
            Observers(self.recorder.handlers).observe([entry])

    def run(self, conversation: str, at: float, *took_ms: float, ending: str = "done") -> None:
        self.observe(conversation, at, RunQueued(caller=OWNERS[conversation], input=()))
        self.observe(conversation, at, RunStarted(model="m", limits=Limits()), TurnStarted(number=1, epoch=1))
        usage = Usage(input_tokens=3, output_tokens=1)
        self.observe(conversation, at + 0.5, TurnEnded(items=(), finish="stop", usage=usage))
        for number, ms in enumerate(took_ms):
            self.call(conversation, at, f"call{number}", ms)
        self.observe(conversation, at + 1.0, RunEnded(ending=ending))  # pyright: ignore[reportArgumentType]

    def call(
        self, conversation: str, at: float, call_id: str, ms: float, outcome: Outcome = "ok", error: str = ""
    ) -> None:
        result = Result(
            id=f"{call_id}.result",
            at=at,
            call_id=call_id,
            tool="t",
            outcome=outcome,
            content="",
            error=Problem(error=error, error_type="execution_error") if error else None,
        )
        self.observe(conversation, at, CallStarted(call_id=call_id, epoch=1))
        self.observe(conversation, at + ms / 1000, CallEnded(result=result))

    async def build(self, tenant: str, user: str, since: float, until: float) -> Overview:
        step_s = select_step(until - since, STEPS)
        return build_overview(await self.recorder.read(tenant, user, step_s, since), since, until)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store, None]:
    async with AsyncExitStack() as stack:
        match request.param:
            case "memory":
                opened = MemoryStore()
            case "sqlite":
                opened = await SqliteStore.open(tmp_path / "toolyard.db")
            case _:
                opened = await PostgresStore.open(await stack.enter_async_context(create_database()))
        stack.push_async_callback(opened.close)
        yield opened


@given(st.lists(st.floats(0.02, 1e7), min_size=1, max_size=200))
def test_a_percentile_is_at_most_five_percent_off(values: list[float]) -> None:
    times = dict[int, int]()
    for value in values:
        add_time(times, value)
    for percent, estimate in zip((50, 95), compute_percentiles(times, 50, 95) or (), strict=True):
        exact = sorted(values)[-(-len(values) * percent // 100) - 1]
        assert abs(estimate - exact) <= 0.0501 * exact
    assert compute_percentiles({}, 50) is None


async def test_runs_count_for_their_user_and_for_the_tenant_also_after_a_restart(store: Store) -> None:
    first = Recording(store)
    first.run("c", 3600.0, 10.0, 20.0, ending="failed")
    first.run("d", 3700.0, 500.0)
    first.run("e", 3700.0)
    for recording in (first, Recording(store)):  # what is pending, and what was stored
        for user, runs, calls in (("ann", 1, 2), ("bob", 1, 1), ("", 2, 3)):
            overview = await recording.build("acme", user, 3600.0 - 48 * 300, 7200.0)
            assert sum(point.runs for point in overview.points) == runs
            assert sum(point.calls for point in overview.points) == calls
            assert [(tool.tool, tool.calls) for tool in overview.tools] == [("t", calls)]
            assert [(model.model, model.turns, model.input_tokens) for model in overview.models] == [
                ("m", runs, 3 * runs)
            ]
            assert overview.models[0].p50_ms == pytest.approx(500.0, rel=0.05)
        assert sum(point.failed for point in (await recording.build("acme", "", 0.0, 7200.0)).points) == 1
        assert (await recording.build("", "ann", 0.0, 7200.0)).tools == []
        await first.recorder.close()


async def test_two_replicas_add_to_the_same_steps(store: Store) -> None:
    replicas = [Recording(store) for _ in range(3)]
    for number, replica in enumerate(replicas):
        replica.run("c", 100.0 + number, 5.0)
        await replica.recorder.close()
    overview = await Recording(store).build("acme", "ann", 0.0, 3600.0)
    assert [point.runs for point in overview.points if point.runs] == [3]
    assert overview.tools[0].calls == 3


async def test_a_step_counts_in_the_point_that_it_begins_in() -> None:
    steps = [(at, msgspec.json.encode(StepCounts(runs=1))) for at in (0.0, 60.0, 2879.0, 2880.0, -60.0)]
    overview = build_overview(steps, 0.0, 2880.0)
    assert [point.runs for point in overview.points] == [2, 1, *[0] * (STEPS - 3), 1]
    assert overview.points[0].call_p50_ms is None


async def test_a_tool_tells_when_it_was_called_last_and_what_went_wrong_last(store: Store) -> None:
    recording = Recording(store)
    recording.call("c", 1000.0, "b", 1.0, "timeout", "late")
    await recording.recorder.close()
    recording.call("c", 500.0, "a", 1.0, "error", "early")
    recording.call("c", 2000.0, "c", 1.0, "denied", "no")
    (tool,) = (await recording.build("acme", "ann", 0.0, 3600.0)).tools
    assert (tool.calls, tool.errors, round(tool.last_at)) == (3, 2, 2000)
    assert (tool.last_error, round(tool.last_error_at or 0)) == ("late", 1000)
    assert [round(time.at / 75) for time in tool.times] == [6, 12, 26], "one for each point in which it ran"


async def test_figures_wait_for_a_store_that_is_down() -> None:
    store = MemoryStore()
    recording = Recording(store)
    recording.run("c", 100.0, 5.0)

    class DownStore(MemoryStore):
        async def add_figures(self, rows: object) -> None:
            raise StoreDown("down")

    down = Recording(DownStore())
    for _ in range(2):
        down.run("c", 100.0, 5.0)
        await down.recorder.close()
    assert (await down.build("acme", "ann", 0.0, 3600.0)).tools[0].calls == 2


async def test_steps_older_than_any_period_are_dropped(store: Store) -> None:
    body = b"{}"
    for step_s in STEPS_S:
        await store.add_figures([FigureRow(tenant="a", user="u", step_s=step_s, at=at, body=body) for at in (0.0, 9e6)])
    for step_s in STEPS_S:
        await store.drop_figures(step_s, 1.0)
        assert await store.read_figures("a", "u", step_s, 0.0) == [(9e6, body)]


@pytest.mark.parametrize(
    ("hours", "step_s"),
    [(0.1, 60), (1, 60), (3.9, 60), (4, 300), (24, 1_800), (168, 10_800), (720, 43_200), (2160, 43_200)],
)
async def test_a_period_is_read_in_the_longest_steps_that_fit_its_points(hours: float, step_s: float) -> None:
    assert select_step(hours * 3600, STEPS) == step_s
    assert STEPS_S[step_s] >= hours * 3600, "the steps are dropped too early"


def test_tools_beyond_a_number_are_counted_together() -> None:
    step = StepCounts()
    for number in range(MAX_NAMES + 50):
        step.find_tool(f"t{number}").add(ToolCounts(calls=1))
    assert len(step.tools) == MAX_NAMES + 1
    assert step.tools[OTHERS].calls == 50
