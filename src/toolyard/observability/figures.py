"""Figures of runs as they happen: an observer adds them up in memory and adds them to the store every few seconds.

A process that crashes loses the figures of these seconds. Replicas have rows of their own, so that none waits for
another one. Runs of earlier versions are not counted: the figures begin with the first run after an upgrade.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

import msgspec

from toolyard.core.conversation.events import (
    CallEnded,
    CallStarted,
    Entry,
    HistoryCompacted,
    RunEnded,
    RunQueued,
    RunStarted,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.state import State
from toolyard.core.errors import StoreDown
from toolyard.core.failed_results import UNKNOWN_TOOL, is_unknown_tool
from toolyard.core.items import Result, Usage
from toolyard.core.ports import Spawn
from toolyard.core.store import FigureRow, Figures
from toolyard.core.store.figures import STEPS_S, ModelCounts, StepCounts, add_time
from toolyard.observability.telemetry import Handlers, bind

FLUSH_S = 5.0
DROP_EVERY_S = 3600.0
MAX_OPEN = 50_000
"""Open runs, turns or calls whose start is remembered: some end in another process, never here."""
MAX_PENDING = 10_000
"""Steps that wait for a store that is down. Beyond this number the oldest are lost."""
MAX_ERROR_CHARS = 300
BASE_STEP_S = min(STEPS_S)

_log = logging.getLogger("toolyard.figures")

T = TypeVar("T")
FindState = Callable[[str], State | None]


class FigureRecorder:
    """Counts stored entries by tenant, user and step, and reads the sums."""

    def __init__(self, store: Figures, now: Callable[[], float], spawn: Spawn, find_state: FindState) -> None:
        """`find_state` returns the state of a conversation that this process drives."""
        self._store = store
        self._now = now
        self._spawn = spawn
        self._find_state = find_state
        self._pending: dict[tuple[str, str, float], StepCounts] = {}
        self._steps: dict[str, tuple[float, StepCounts]] = {}
        """Those of `_pending` in which each conversation counts now, with their times."""
        self._models: dict[str, str] = {}
        self._started: dict[str, float] = {}
        """The start of the open turn of each run, and of each call."""
        self._timer: asyncio.TimerHandle | None = None
        self._lock = asyncio.Lock()
        self._next_drop_at = 0.0
        self.handlers: Handlers = {
            **bind(RunQueued, self._count_run),
            **bind(RunStarted, self._start_run),
            **bind(RunEnded, self._end_run),
            **bind(TurnStarted, self._start_turn),
            **bind(TurnEnded, self._end_turn),
            **bind(TurnFailed, self._fail_turn),
            **bind(HistoryCompacted, self._count_summary),
            **bind(CallStarted, self._start_call),
            **bind(CallEnded, self._end_call),
        }

    async def read(self, tenant: str, user: str, step_s: float, since: float) -> list[tuple[float, bytes]]:
        """Return the encoded figures of a user, or of all users of the tenant if `user` is empty, by step."""
        async with self._lock:  # else steps that are on their way to the store would be missed or counted twice
            rows = await self._store.read_figures(tenant, user, step_s, since - step_s)
            pending = [
                (at // step_s * step_s, msgspec.json.encode(step))
                for (its_tenant, its_user, at), step in self._pending.items()
                if its_tenant == tenant and (not user or its_user == user)
            ]
        return [*rows, *pending]

    async def close(self) -> None:
        """Add what is pending to the store."""
        await self._flush()
        if self._timer is not None:
            self._timer.cancel()

    def _count_run(self, entry: Entry, _: RunQueued) -> None:
        self._find_step(entry).runs += 1

    def _start_run(self, entry: Entry, event: RunStarted) -> None:
        _remember(self._models, entry.run, event.model)

    def _end_run(self, entry: Entry, event: RunEnded) -> None:
        self._models.pop(event.run_id or entry.run, None)
        self._started.pop(entry.run, None)
        if event.ending == "failed":
            self._find_step(entry).failed += 1

    def _start_turn(self, entry: Entry, _: TurnStarted) -> None:
        if entry.run not in self._started:  # else the turn started again, as its owner died
            _remember(self._started, entry.run, entry.at)

    def _end_turn(self, entry: Entry, event: TurnEnded) -> None:
        step, usage = self._find_step(entry), event.usage
        model = step.find_model(event.model or self._models.get(entry.run, ""))
        model.input_tokens += usage.input_tokens
        model.output_tokens += usage.output_tokens
        _add_usage(step, usage)
        for item in event.items:  # calls that the provider ran come with their results
            if isinstance(item, Result):
                self._count_call(entry, item, step)
        self._count_turn(entry, model)

    def _fail_turn(self, entry: Entry, _: TurnFailed) -> None:
        model = self._find_step(entry).find_model(self._models.get(entry.run, ""))
        model.failed += 1
        self._count_turn(entry, model)

    def _count_turn(self, entry: Entry, model: ModelCounts) -> None:
        model.turns += 1
        started_at = self._started.pop(entry.run, None)
        if started_at is not None:
            add_time(model.times, (entry.at - started_at) * 1000)

    def _count_summary(self, entry: Entry, event: HistoryCompacted) -> None:
        _add_usage(self._find_step(entry), event.usage)

    def _start_call(self, entry: Entry, event: CallStarted) -> None:
        if event.call_id not in self._started:
            _remember(self._started, event.call_id, entry.at)

    def _end_call(self, entry: Entry, event: CallEnded) -> None:
        self._count_call(entry, event.result, self._find_step(entry))

    def _count_call(self, entry: Entry, result: Result, step: StepCounts) -> None:
        started_at = self._started.pop(result.call_id, None)
        took_ms = result.duration_ms or (None if started_at is None else (entry.at - started_at) * 1000)
        tool = step.find_tool(UNKNOWN_TOOL if is_unknown_tool(result.error, took_ms) else result.tool)
        tool.calls += 1
        tool.last_at = max(tool.last_at, entry.at)
        if took_ms is not None:
            add_time(tool.times, took_ms)
        # A denial or a stop is a person's decision, not an error.
        if result.outcome in ("error", "timeout", "unknown"):
            tool.errors += 1
            tool.last_error = result.error.error[:MAX_ERROR_CHARS] if result.error else ""
            tool.last_error_at = entry.at

    def _find_step(self, entry: Entry) -> StepCounts:
        """Return the figures that an entry counts in: those of the conversation's owner."""
        at = entry.at // BASE_STEP_S * BASE_STEP_S
        latest = self._steps.get(entry.conversation)
        if latest is not None and latest[0] == at:
            return latest[1]
        state = self._find_state(entry.conversation)
        if state is None or state.owner is None:
            return StepCounts()  # the conversation was deleted meanwhile
        key = state.owner.tenant, state.owner.user, at
        step = self._pending.get(key)
        if step is None:
            if len(self._pending) >= MAX_PENDING:
                del self._pending[next(iter(self._pending))]
                self._steps.clear()
            step = self._pending[key] = StepCounts()
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self._start_flush)
        self._steps[entry.conversation] = at, step
        return step

    def _start_flush(self) -> None:
        self._timer = None
        self._spawn(self._flush())

    async def _flush(self) -> None:
        async with self._lock:
            pending, self._pending = self._pending, {}
            self._steps.clear()
            try:
                await self._store.add_figures(_build_rows(pending))
                await self._drop_old()
            except StoreDown as error:
                _log.warning("figures could not be stored: %s", error)
                pending.update({key: step for key, step in self._pending.items() if key not in pending})
                for key, step in self._pending.items():
                    if pending[key] is not step:
                        pending[key].add(step)
                self._pending = pending
                self._steps.clear()

    async def _drop_old(self) -> None:
        now = self._now()
        if now >= self._next_drop_at:
            self._next_drop_at = now + DROP_EVERY_S
            for step_s, max_age_s in STEPS_S.items():
                await self._store.drop_figures(step_s, now - max_age_s - step_s)


def _build_rows(pending: dict[tuple[str, str, float], StepCounts]) -> list[FigureRow]:
    """Return rows of each length of step, for each user and for all users of a tenant."""
    sums: dict[tuple[str, str, float, float], StepCounts] = {}
    for (tenant, user, at), step in pending.items():
        for step_s in STEPS_S:
            for name in {user, ""}:
                sums.setdefault((tenant, name, step_s, at // step_s * step_s), StepCounts()).add(step)
    return [
        FigureRow(tenant=tenant, user=user, step_s=step_s, at=at, body=msgspec.json.encode(step))
        for (tenant, user, step_s, at), step in sums.items()
    ]


def _add_usage(step: StepCounts, usage: Usage) -> None:
    step.input_tokens += usage.input_tokens
    step.output_tokens += usage.output_tokens


def _remember(table: dict[str, T], key: str, value: T) -> None:
    if len(table) >= MAX_OPEN:
        del table[next(iter(table))]
    table[key] = value
