"""Helpers of many tests: a clock, a collector of log lines, and how to open a yard, drive a run and read its events."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from toolyard import Caller, Run, ToolLike, Yard
from toolyard.core.conversation.events import CallEnded, CallJudged, Entry, Event, RunEnded, TextAppended
from toolyard.core.conversation.history import find_faults
from toolyard.core.items import Result
from toolyard.core.store import Append, Claim, Store
from toolyard.core.store.audit_chain import AuditEntry, ChainCheck
from toolyard.observability.log_lines import LineFormatter
from toolyard.testing import Script, Scripted

STAFF = Caller(user="u17", roles=frozenset({"warehouse_staff"}))
TEST_TIMEOUT_S = 60.0
E = TypeVar("E")


class SettableClock:
    """A clock that stands still until a test sets `time`. Its ids are the bare prefixes."""

    def __init__(self, time: float = 1_000_000.0) -> None:
        self.time = time

    def now(self) -> float:
        return self.time

    def new_id(self, prefix: str) -> str:
        return prefix


class LineCollector(logging.Handler):
    """Keeps log lines as they would be written: those of all loggers, or of the named packages."""

    def __init__(self, level: int, packages: Collection[str] = ()) -> None:
        super().__init__(level)
        self.setFormatter(LineFormatter())
        self._packages = packages
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not self._packages or record.name.partition(".")[0] in self._packages:
            self.lines.append(self.format(record))


@asynccontextmanager
async def open_yard(script: Script, tools: Sequence[ToolLike] = (), **options: object) -> AsyncGenerator[Yard, None]:
    """Open a yard with a scripted model. The block fails after TEST_TIMEOUT_S."""
    async with (
        asyncio.timeout(TEST_TIMEOUT_S),
        Yard(tools=tools, model=Scripted(script), **options) as yard,  # pyright: ignore[reportArgumentType]
    ):
        yield yard


async def collect_events(run: Run) -> list[Event]:
    return [event async for event in run]


async def wait_for_event(run: Run, kind: type[E]) -> tuple[E, Run]:
    """Return the first event of this type, and the run, which goes on. Raise AssertionError if none comes."""
    async for event in run:
        if isinstance(event, kind):
            return event, run
    raise AssertionError(f"no {kind.__name__} came")


async def wait_until(predicate: Callable[[], bool]) -> None:
    """Wait until the predicate is true, by polling: for a state of which no event tells."""
    async with asyncio.timeout(TEST_TIMEOUT_S):
        while not predicate():  # noqa: ASYNC110 - there is nothing to wait on
            await asyncio.sleep(0.01)


def get_results(events: Sequence[Event]) -> list[Result]:
    return [event.result for event in events if isinstance(event, CallEnded)]


def get_result(events: Sequence[Event]) -> Result:
    """Return the result of the only call."""
    (only,) = get_results(events)
    return only


def get_ending(events: Sequence[Event]) -> RunEnded:
    last = events[-1]
    assert isinstance(last, RunEnded), last
    return last


def join_text(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextAppended))


def list_asked_calls(events: Sequence[Event]) -> list[str]:
    """Return the ids of the calls that need approval."""
    return [event.call_id for event in events if isinstance(event, CallJudged) and event.verdict == "ask"]


async def find_history_faults(yard: Yard, conversation: str) -> list[str]:
    """Return what a strict provider would reject in the history; a valid history gives an empty list."""
    return find_faults(await yard.history(conversation))


def get_problem(result: Result) -> tuple[str, str]:
    """Return the outcome and the error type of a result that is an error."""
    assert result.error is not None, result
    return result.outcome, result.error.error_type


async def read_entries(yard: Yard, conversation: str, ended_runs: int = 1) -> list[Entry]:
    """Return the log from its beginning until so many runs have ended."""
    reader = await yard.follow(conversation)
    entries: list[Entry] = []
    async for item in reader:
        if isinstance(item, Entry):
            entries.append(item)
            if sum(isinstance(entry.event, RunEnded) for entry in entries) == ended_runs:
                break
    reader.detach()
    return entries


def find_break(entries: Sequence[AuditEntry]) -> str:
    """Return in words where the chain of all entries of an audit log is broken; empty if it holds."""
    check = ChainCheck()
    return check.add(entries) or check.find_gap()


async def claim_epoch(store: Store, conversation: str) -> int:
    """Claim a conversation that nobody else owns and return the epoch."""
    claim = await store.claim(conversation)
    assert isinstance(claim, Claim)
    return claim.epoch


async def append_entries(
    store: Store, conversation: str, epoch: int, entries: Sequence[Entry], wake_at: float | None = None
) -> None:
    """Append entries as the owner of an epoch, who keeps the conversation."""
    await store.append(Append(conversation=conversation, epoch=epoch, entries=entries, wake_at=wake_at))
