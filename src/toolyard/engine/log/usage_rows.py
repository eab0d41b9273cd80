"""What the entries of a log add to the usage of models and tools, and which reservations they end. Pure."""

from collections.abc import Iterator

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
from toolyard.core.store.ledger import ALL_TURNS, Settlement, UsageRow

SPENDING_EVENTS = frozenset({TurnEnded, TurnFailed, HistoryCompacted, CallEnded, RunEnded})
"""The events that may add to the usage or end a reservation."""
SUMMARY_SUFFIX = ".summary"
"""Tells the reservation for a summary from that for the turn after it."""
DAY_S = 86_400


def build_usage_rows(entry: Entry, run: RunState) -> Iterator[UsageRow]:
    """Yield the rows that an entry of a run adds to the usage: one for tokens, and one for each tool with a price."""
    event = entry.event
    match event:
        case TurnEnded():
            yield from _build_model_rows(entry, run, event.fallback, event.usage, event.cost)
        case HistoryCompacted() if event.cost is not None or event.usage.total:
            yield from _build_model_rows(entry, run, "", event.usage, event.cost)
        case TurnFailed() if event.cost is not None:
            yield from _build_model_rows(entry, run, "", Usage(), event.cost)
        case CallEnded(cost=cost, result=result) if cost is not None:
            yield _build_row(entry, run, tool=result.tool, uses=1, cost_micros=cost.micros, currency=cost.currency)
        case _:
            pass


def _build_model_rows(
    entry: Entry, run: RunState, fallback: str, usage: Usage, cost: Cost | None
) -> Iterator[UsageRow]:
    model, currency = mask_model(fallback or run.model), cost.currency if cost else ""
    yield _build_row(
        entry,
        run,
        model=model,
        currency=currency,
        turns=1,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        cache_writes_5m=usage.cache_writes_5m,
        cache_writes_1h=usage.cache_writes_1h,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cost_micros=cost.micros - sum(cost.tools.values()) if cost else 0,
        unknown_costs=0 if cost else 1,
        estimated_costs=1 if cost and cost.estimated else 0,
    )
    for tool, uses in usage.tool_uses.items():
        micros = cost.tools.get(tool) if cost else None
        yield _build_row(
            entry,
            run,
            model=model,
            tool=tool,
            currency="" if micros is None else currency,
            uses=uses,
            cost_micros=micros or 0,
            unknown_costs=uses if micros is None else 0,
        )


def _build_row(entry: Entry, run: RunState, **values: int | str) -> UsageRow:
    caller = run.request.caller
    return UsageRow(
        day=int(entry.at // DAY_S),
        tenant=caller.tenant,
        user=caller.user,
        key=caller.key,
        preset=run.settings.preset,
        **values,  # pyright: ignore[reportArgumentType]
    )


def build_settlements(event: Durable, state: State) -> Iterator[Settlement]:
    """Yield the settlements of the reservations that an event ends. `state` is that before the event."""
    match event:
        case TurnEnded(cost=cost) | TurnFailed(cost=cost) if state.turn is not None:
            yield Settlement(turn=str(state.turn.number), micros=cost.micros if cost else 0)
        case HistoryCompacted(cost=cost):
            yield Settlement(turn=f"{state.turns + 1}{SUMMARY_SUFFIX}", micros=cost.micros if cost else 0)
        case RunEnded(run_id=""):
            yield Settlement(turn=ALL_TURNS)
        case _:
            pass
