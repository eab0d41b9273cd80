"""An observer that fails affects neither the run nor other observers."""

import asyncio
import logging

import pytest

from support import collect_events, get_ending
from toolyard import Yard, tool
from toolyard.app import Wiring
from toolyard.core.conversation.events import Entry, Event, RunEnded, event_name
from toolyard.testing import Scripted, call, say


@tool
def search(q: str) -> str:
    """Find it."""
    return q


async def test_an_observer_that_fails_is_logged_once_and_neither_the_run_nor_the_next_observer_notices(
    caplog: pytest.LogCaptureFixture,
) -> None:
    observed_names: list[str] = []

    def broken(entry: Entry) -> None:
        raise ValueError(f"cannot take {entry.seq}")

    def sound(entry: Entry) -> None:
        observed_names.append(event_name(entry.event))

    async def test() -> list[Event]:
        model = Scripted([call("search", q="x"), say("done")])
        wiring = Wiring(model=model, tools=(search,), observers=(broken, sound))
        async with asyncio.timeout(20), Yard.from_wiring(wiring) as yard:
            return await collect_events(yard.run("go"))

    caplog.set_level(logging.ERROR)
    events = await test()
    assert get_ending(events) == RunEnded(ending="done", detail=get_ending(events).detail)
    assert observed_names[0] == "conversation.opened" and observed_names[-1] == "run.ended"
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "an observer failed and may miss more; this is said once"
    ]
