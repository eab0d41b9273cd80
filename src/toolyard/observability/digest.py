"""Digests of runs for the list of runs, made from the logs and cached until a conversation changes.

The figures of the overview are counted elsewhere, while runs go on: see `figures.py`.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from toolyard.core.conversation.events import Entry
from toolyard.core.failed_results import is_unknown_tool
from toolyard.core.items import Outcome, Usage
from toolyard.core.settings.prices import Cost
from toolyard.core.store import ConversationCard
from toolyard.observability.trace import RunHead, Trace, build_trace

MAX_CACHED = 2000
MAX_ERROR_CHARS = 300


class TurnDigest(Struct, frozen=True, kw_only=True):
    at: float
    model: str
    took_ms: float
    failed: bool
    usage: Usage


class CallDigest(Struct, frozen=True, kw_only=True):
    at: float
    tool: str
    outcome: Outcome | None
    took_ms: float | None
    error: str = ""
    """The first MAX_ERROR_CHARS of the error."""
    unknown: bool = False
    """Whether the tool did not exist: a tool that gets this name later did not fail."""


class RunDigest(RunHead, frozen=True, kw_only=True):
    """A run as a list shows it."""

    title: str
    took_ms: float
    """From queueing to the end, waits included; to the last entry for an open run."""
    turns: tuple[TurnDigest, ...]
    calls: tuple[CallDigest, ...]
    cost_micros: dict[str, int]
    """What turns, summaries and calls cost, in millionths, by currency."""
    unknown_costs: int
    """How many turns have an unknown cost, which is no part of the sums."""
    estimated_costs: int


class Digests:
    """A cache of the runs of conversations, valid until a conversation changes."""

    def __init__(self, read: Callable[[str], Awaitable[Sequence[Entry]]]) -> None:
        self._read = read
        self._cached: OrderedDict[str, tuple[float, list[RunDigest]]] = OrderedDict()

    async def list_runs(self, card: ConversationCard) -> list[RunDigest]:
        """Return the runs of a conversation, newest first."""
        cached = self._cached.get(card.id)
        if cached is None or cached[0] != card.updated_at:
            cached = card.updated_at, digest_runs(await self._read(card.id), card)
            if any(run.status != "ended" for run in cached[1]):
                return cached[1]  # a card does not change while its run goes on
            self._cached[card.id] = cached
        self._cached.move_to_end(card.id)
        while len(self._cached) > MAX_CACHED:
            self._cached.popitem(last=False)
        return cached[1]


def digest_runs(entries: Sequence[Entry], card: ConversationCard) -> list[RunDigest]:
    """Return the digests of a conversation's runs, newest first."""
    by_run: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_run[entry.run].append(entry)
    traces = (build_trace(run_entries, run_id) for run_id, run_entries in by_run.items() if run_id)
    return [_digest_run(trace, card) for trace in reversed([trace for trace in traces if trace is not None])]


def _digest_run(trace: Trace, card: ConversationCard) -> RunDigest:
    parts = (*trace.turns, *trace.compactions, *trace.calls, trace)
    costs = [part.cost for part in parts if part.cost is not None]
    return RunDigest(
        **{name: getattr(trace, name) for name in RunHead.__struct_fields__},
        title=card.title,
        took_ms=((trace.ended_at or trace.last_at) - trace.queued_at) * 1000,
        turns=tuple(
            TurnDigest(
                at=turn.started_at,
                model=turn.model or trace.model,
                took_ms=(turn.ended_at - turn.started_at) * 1000,
                failed=turn.problem is not None,
                usage=turn.usage,
            )
            for turn in trace.turns
            if turn.ended_at is not None
        ),
        calls=tuple(
            CallDigest(
                at=call.requested_at,
                tool=call.tool,
                outcome=call.outcome,
                took_ms=call.duration_ms,
                error=call.error.error[:MAX_ERROR_CHARS] if call.error else "",
                unknown=is_unknown_tool(call.error, call.duration_ms),
            )
            for call in trace.calls
        ),
        cost_micros=_sum_by_currency(costs),
        unknown_costs=sum(turn.finish is not None and turn.cost is None for turn in trace.turns),
        estimated_costs=sum(cost.estimated for cost in costs),
    )


def _sum_by_currency(costs: Sequence[Cost]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for cost in costs:
        sums[cost.currency] = sums.get(cost.currency, 0) + cost.micros
    return sums
