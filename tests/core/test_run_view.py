"""A view of a run is the same whether its reader was there from the start or came at any place."""

import asyncio
from typing import Literal

from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from core.published import StoredLog
from core.story import Story, model_text, tool_call
from core.test_properties import Script, play, scripts
from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import Entry, Published, TextAppended, TurnEnded, TurnFailed, TurnStarted
from toolyard.core.conversation.run_view import OpenRuns, RunView
from toolyard.core.items import Problem
from toolyard.engine.log.open_runs import FOLD_STEP, load_open_runs

How = Literal["stop", "patience"]


def fold(items: list[tuple[Published, Cursor]]) -> OpenRuns:
    runs = OpenRuns()
    for item, _ in items:
        runs.apply(item)
    return runs


@effort(max_examples=50, deadline=None)
@given(scripts, st.sampled_from(["stop", "patience"]), st.integers(0, 10_000))
def test_a_view_from_any_prefix_that_goes_on_is_the_view_of_the_whole(script: Script, how: How, pick: int) -> None:
    async def compare() -> None:
        log = StoredLog(play(script, how))
        items = await log.read_live()
        at = pick % len(items)
        whole, resumed = fold(items[: at + 1]), await load_open_runs(log, "k", items[at][1])
        for item, _ in items[at + 1 :]:
            assert (whole.apply(item) is None) == (resumed.apply(item) is None)
            assert (resumed.views, resumed.front) == (whole.views, whole.front)
            assert resumed.last in (None, whole.last)

    asyncio.run(compare())


@effort(max_examples=50, deadline=None)
@given(scripts, st.sampled_from(["stop", "patience"]))
def test_fleeting_events_belong_to_the_run_at_the_front_and_change_no_view(script: Script, how: How) -> None:
    items = asyncio.run(StoredLog(play(script, how)).read_live())
    live, stored = OpenRuns(), OpenRuns()
    for item, _ in items:
        view = live.apply(item)
        if isinstance(item, Entry):
            stored.apply(item)
        else:
            assert view is live.front and view is not None and view.is_active
        assert live == stored


async def test_others_get_their_turn_while_a_long_run_is_read() -> None:
    story = Story().open().begin("long")
    for number in range(1, 1001):
        story.add(TurnStarted(number=number, epoch=1))
        story.add(TurnFailed(problem=Problem(error="", error_type="")))
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count_turns())
    runs = await load_open_runs(StoredLog(story.log), "k", Cursor(len(story.log)))
    other.cancel()
    assert runs.front is not None and len(runs.front.turns) == 1000
    assert turns >= len(story.log) // FOLD_STEP


def test_the_view_of_one_run_leaves_out_the_others() -> None:
    story = Story().open().begin("first")
    story.add(TurnStarted(number=1, epoch=1))
    story.queue("second")
    story.add(TurnEnded(items=(model_text("t"), tool_call("c")), finish="calls"))
    first, second = RunView(run_id="first"), RunView(run_id="second")
    for entry in story.log:
        assert (first.apply(entry) is first) == (entry.run == "first")
        assert (second.apply(entry) is second) == (entry.run == "second")
    assert (first.status, first.text, list(first.calls)) == ("running", "an answer", ["c"])
    assert (second.status, second.turns, second.calls) == ("queued", [], {})
    assert second.apply(TextAppended(turn=1, offset=0, text="not its own")) is None
