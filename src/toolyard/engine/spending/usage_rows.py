"""What the entries of a log add to the usage of models and tools, and which reservations they end. Pure."""

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from toolyard.core.conversation.events import (
    CallEnded,
    Durable,
    Entry,
    HistoryCompacted,
    RunEnded,
    TurnEnded,
    TurnFailed,
)
from toolyard.core.conversation.run_state import RunState
from toolyard.core.conversation.state import State
from toolyard.core.items import Usage
from toolyard.core.masking import mask_model
from toolyard.core.settings.prices import Cost
from toolyard.core.store.ledger import ALL_TURNS, CALL_PREFIX, Settlement, UsageRow, name_summary

SPENDING_EVENTS = frozenset({TurnEnded, TurnFailed, HistoryCompacted, CallEnded, RunEnded})
"""The events that may add to the usage or end a reservation. Each has a cost, or None."""
DAY_S = 86_400


class SpendingRecorder:
    """What the entries that are about to be stored add to the usage and to budgets."""

    def __init__(self, has_budgets: Callable[[], bool]) -> None:
        self.usage: list[UsageRow] = []
        self.settlements: list[Settlement] = []
        self._has_budgets = has_budgets

    def record(self, entry: Entry, before: State) -> None:
        """Add what an entry spent, given the state before it."""
        if before.run is not None:
            self.usage += build_usage_rows(entry, before.run)
        if self._has_budgets():
            self.settlements += build_settlements(entry.event, before)

    def clear(self) -> None:
        """Begin anew. The lists are left to whoever stores them."""
        self.usage, self.settlements = [], []


def build_usage_rows(entry: Entry, run: RunState) -> Sequence[UsageRow]:
    """Return the rows that an entry of a run adds to the usage: one for tokens, and one for each tool with a price."""
    event = entry.event
    match event:
        case TurnEnded():
            return _build_model_rows(entry, run, event.fallback, event.usage, event.cost)
        case CallEnded(cost=None) | RunEnded(cost=None):  # most of them
            return ()
        case CallEnded(cost=Cost() as cost, result=result):
            return (_build_tool_row(entry, run, "", result.tool, 1, cost.micros, cost.currency),)
        case TurnFailed(cost=Cost() as cost) | RunEnded(cost=Cost() as cost):
            return _build_model_rows(entry, run, "", Usage(), cost)
        case HistoryCompacted() if event.cost is not None or event.usage.total:
            return _build_model_rows(entry, run, "", event.usage, event.cost)
        case _:
            return ()


def _build_model_rows(
    entry: Entry, run: RunState, fallback: str, usage: Usage, cost: Cost | None
) -> Sequence[UsageRow]:
    model, caller = mask_model(fallback or run.model), run.request.caller
    # No more than 15 arguments: Python collects those of a longer call in a dict, which takes a microsecond.
    tokens = UsageRow(
        day=int(entry.at // DAY_S),
        tenant=caller.tenant,
        user=caller.user,
        key=caller.key,
        model=model,
        preset=run.settings.preset,
        turns=1,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        cache_writes_5m=usage.cache_writes_5m,
        cache_writes_1h=usage.cache_writes_1h,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        unknown_costs=0 if cost else 1,
    )
    if cost is not None:
        micros = cost.micros - sum(cost.tools.values())
        tokens = replace(tokens, currency=cost.currency, cost_micros=micros, estimated_costs=int(cost.estimated))
    if not usage.tool_uses:
        return (tokens,)
    prices = cost.tools if cost else {}
    uses = [
        _build_tool_row(entry, run, model, tool, count, prices.get(tool), tokens.currency)
        for tool, count in usage.tool_uses.items()
    ]
    return (tokens, *uses)


def _build_tool_row(
    entry: Entry, run: RunState, model: str, tool: str, uses: int, micros: int | None, currency: str
) -> UsageRow:
    """Return the row of uses of a tool; `micros` is None if their cost is unknown."""
    caller = run.request.caller
    return UsageRow(
        day=int(entry.at // DAY_S),
        tenant=caller.tenant,
        user=caller.user,
        key=caller.key,
        model=model,
        tool=tool,
        preset=run.settings.preset,
        currency="" if micros is None else currency,
        uses=uses,
        cost_micros=micros or 0,
        unknown_costs=uses if micros is None else 0,
    )


def build_settlements(event: Durable, state: State) -> Iterator[Settlement]:
    """Yield the settlements of the reservations that an event ends. `state` is that before the event."""
    match event:
        case CallEnded(cost=cost, result=result) if cost is not None:
            yield Settlement(turn=f"{CALL_PREFIX}{result.call_id}", micros=cost.micros)
        case TurnEnded(cost=cost) | TurnFailed(cost=cost) if state.turn is not None:
            yield Settlement(turn=str(state.turn.number), micros=cost.micros if cost else 0)
        case HistoryCompacted(cost=cost):
            yield Settlement(turn=name_summary(state), micros=cost.micros if cost else 0)
        case RunEnded(run_id="", cost=cost):
            if cost is not None:
                yield Settlement(turn=name_summary(state), micros=cost.micros)
            yield Settlement(turn=ALL_TURNS)
        case _:
            pass
