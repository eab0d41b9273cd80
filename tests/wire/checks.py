"""What every reply must be read to, whatever its dialect."""

from collections import defaultdict
from collections.abc import Sequence

from toolyard.core.conversation.events import (
    ArgumentsAppended,
    ModelDelta,
    ReasoningAppended,
    TextAppended,
    TurnEnded,
    TurnFailed,
)
from toolyard.core.items import Call, ModelText, Reasoning
from wire.reply_bytes import Stream

Events = Sequence[ModelDelta | TurnEnded | TurnFailed]


def expect_ended(events: Events) -> TurnEnded:
    assert isinstance(events[-1], TurnEnded), events[-1]
    assert not any(isinstance(event, TurnEnded | TurnFailed) for event in events[:-1])
    return events[-1]


def expect_failed(events: Events) -> TurnFailed:
    assert isinstance(events[-1], TurnFailed), events[-1]
    assert not any(isinstance(event, TurnEnded | TurnFailed) for event in events[:-1])
    return events[-1]


def calls_of(turn: TurnEnded) -> list[Call]:
    """Those that are ours to run."""
    return [item for item in turn.items if isinstance(item, Call) and not item.ran_at]


def check_turn(stream: Stream, events: Events) -> None:
    turn = expect_ended(events)
    calls = calls_of(turn)
    assert "".join(item.text for item in turn.items if isinstance(item, ModelText)) == stream.text
    assert "".join(item.text for item in turn.items if isinstance(item, Reasoning)) == stream.reasoning
    assert [(call.tool, call.arguments) for call in calls] == list(stream.calls)
    assert turn.finish == stream.finish
    for number, call in enumerate(calls):
        assert stream.unreadable.get(number, "") in call.unreadable
        assert bool(call.unreadable) == (number in stream.unreadable)
        assert len(call.unreadable) < 320
    if stream.ids is not None:
        assert [call.provider_id for call in calls] == list(stream.ids)
    assert len({item.id for item in turn.items}) == len(turn.items)
    check_call_ids(events)


def check_call_ids(events: Events) -> None:
    """Each delta of arguments names, from the first one, the call that the turn ends with at its index.

    A provider's own calls may be moved before the others in the turn's items: with those only the ids must match.
    """
    calls = [item for item in expect_ended(events).items if isinstance(item, Call)]
    call_ids = {event.index: event.call_id for event in events if isinstance(event, ArgumentsAppended)}
    for event in events:
        if isinstance(event, ArgumentsAppended):
            assert event.call_id == call_ids[event.index]
    if any(call.ran_at for call in calls):
        assert set(call_ids.values()) <= {call.id for call in calls}
    else:
        assert call_ids == {index: calls[index].id for index in call_ids}


def check_offsets(events: Events) -> None:
    """Each delta starts at the byte where the one before it in its stream ended."""
    offsets: defaultdict[object, int] = defaultdict(int)
    for event in events:
        if isinstance(event, TextAppended | ReasoningAppended | ArgumentsAppended):
            key = (type(event), event.index if isinstance(event, ArgumentsAppended) else 0)
            assert event.offset == offsets[key]
            offsets[key] += len(event.text.encode())
