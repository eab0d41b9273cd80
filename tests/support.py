"""What flow tests share: open a yard, drive a run to its end, look at what happened."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from toolyard import Caller, Run, Scripted, Yard
from toolyard.core.events import CallEnded, CallJudged, Entry, Event, RunEnded, TextAppended
from toolyard.core.history import find_faults
from toolyard.core.items import Result
from toolyard.models.scripted import Script

STAFF = Caller(user="u17", roles=frozenset({"warehouse_staff"}))
PATIENCE_S = 60.0
E = TypeVar("E")


@asynccontextmanager
async def open_yard(script: Script, tools: Sequence[object] = (), **options: object) -> AsyncGenerator[Yard, None]:
    """Open a yard with a scripted model, within a bound of time."""
    async with (
        asyncio.timeout(PATIENCE_S),
        Yard(tools=tools, model=Scripted(script), **options) as yard,  # pyright: ignore[reportArgumentType]
    ):
        yield yard


async def events_of(run: Run) -> list[Event]:
    return [event async for event in run]


async def until(run: Run, kind: type[E]) -> tuple[E, Run]:
    """Iterate until such an event comes; the run goes on."""
    async for event in run:
        if isinstance(event, kind):
            return event, run
    raise AssertionError(f"no {kind.__name__} came")


async def condition(holds: Callable[[], bool]) -> None:
    """Wait until something that nobody tells of is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - there is nothing to wait on
            await asyncio.sleep(0.01)


def results(events: Sequence[Event]) -> list[Result]:
    return [event.result for event in events if isinstance(event, CallEnded)]


def result(events: Sequence[Event]) -> Result:
    (only,) = results(events)
    return only


def ending(events: Sequence[Event]) -> RunEnded:
    last = events[-1]
    assert isinstance(last, RunEnded), last
    return last


def text(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextAppended))


def asked(events: Sequence[Event]) -> list[str]:
    return [event.call_id for event in events if isinstance(event, CallJudged) and event.verdict == "ask"]


async def sound(yard: Yard, conversation: str) -> list[str]:
    """What a strict provider would say against the history; empty is good."""
    return find_faults(await yard.history(conversation))


def problem(found: Result) -> tuple[str, str]:
    assert found.error is not None, found
    return found.outcome, found.error.error_type


async def entries(yard: Yard, conversation: str, until_ended: int = 1) -> list[Entry]:
    """The log from its beginning to the end of the nth run."""
    reader = await yard.follow(conversation)
    found: list[Entry] = []
    async for item in reader:
        if isinstance(item, Entry):
            found.append(item)
            if sum(isinstance(entry.event, RunEnded) for entry in found) == until_ended:
                break
    reader.detach()
    return found
