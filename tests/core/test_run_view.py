"""A view of a run is the same whether its reader was there from the start or came at any place."""

import asyncio
from typing import Literal

from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from core.published import StoredLog
from core.story import Story, model_text, tool_call
from core.test_properties import Script, play, scripts
from toolyard.core.cursor import Cursor
from toolyard.core.events import Published, TextAppended, TurnEnded, TurnStarted
from toolyard.core.run_view import OpenRuns, RunView
from toolyard.engine.open_runs import load_open_runs

How = Literal["stop", "patience"]


def fold(items: list[tuple[Published, Cursor]]) -> OpenRuns:
    runs = OpenRuns()
    for item, _ in items:
        runs.apply(item)
    return runs


def is_writing(runs: OpenRuns) -> bool:
    """Return whether the model is writing: who came in the middle of a text has only the rest of it."""
    return runs.front is not None and bool(runs.front.turns) and runs.front.turns[-1].live_text.size > 0


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
            if not is_writing(whole):
                assert (resumed.views, resumed.front) == (whole.views, whole.front)
                assert resumed.last in (None, whole.last)

    asyncio.run(compare())


@effort(max_examples=50, deadline=None)
@given(scripts, st.sampled_from(["stop", "patience"]))
def test_fleeting_events_that_come_twice_change_nothing(script: Script, how: How) -> None:
    items = asyncio.run(StoredLog(play(script, how)).read_live())
    once, twice = OpenRuns(), OpenRuns()
    for item, _ in items:
        once.apply(item)
        twice.apply(item)
        if isinstance(item, TextAppended):
            twice.apply(item)
        assert once == twice


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
