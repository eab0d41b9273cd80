"""What a catalog reads in entries: which of them it shows, and whether a text was said in them. Knows no store."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import assert_never

from toolyard.core.events import (
    CallAnswered,
    CallApproved,
    CallDenied,
    CallEnded,
    CallJudged,
    CallParked,
    CallStarted,
    ConversationChanged,
    ConversationOpened,
    Durable,
    Entry,
    HistoryCompacted,
    MessageAdded,
    MessageRemoved,
    RunEnded,
    RunQueued,
    RunStarted,
    RunSuspended,
    StopRequested,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.items import Item, ModelText, TextPart, UserMessage

_CATALOG_EVENTS = frozenset({ConversationOpened, ConversationChanged, RunQueued})


def select_catalog_entries(entries: Sequence[Entry]) -> list[Entry]:
    """Those that the catalog is written from."""
    return [entry for entry in entries if type(entry.event) in _CATALOG_EVENTS]


def fold_case(text: str) -> str:
    """The text with upper and lower case made one: character by character, and none from outside ASCII into it."""
    text = text.replace("\u0130", "\u0131").replace("\u212a", "\u1d0b")  # İ would become two, the Kelvin sign a k
    return text.lower().replace("ς", "σ")


def is_mentioned(needle: str, entries: Iterable[Entry], removals: Callable[[], Iterable[Entry]]) -> bool:
    """Whether a message that is still there holds the folded text. `removals` are asked for only if it matters."""
    holding = (item for entry in entries for item, text in _list_texts(entry.event) if needle in fold_case(text))
    for first in holding:
        gone = {item for entry in removals() for item in _list_removed_ids(entry.event)}
        return first not in gone or any(item not in gone for item in holding)
    return False


def _list_texts(event: Durable) -> Iterator[tuple[str, str]]:
    """Each text of a user or a model, with the id of its item."""
    for item in _list_items(event):
        match item:
            case UserMessage():
                yield from ((item.id, part.text) for part in item.parts if isinstance(part, TextPart))
            case ModelText():
                yield item.id, item.text
            case _:
                pass


def _list_items(event: Durable) -> tuple[Item, ...]:
    match event:
        case MessageAdded():
            return (event.item,)
        case RunQueued():
            return event.input
        case TurnEnded() | HistoryCompacted():
            return event.items
        case RunEnded():
            return (event.message,) if event.message else ()
        case ConversationOpened() | ConversationChanged() | MessageRemoved() | StopRequested() | RunSuspended():
            return ()
        case RunStarted() | TurnStarted() | TurnFailed() | CallJudged() | CallApproved() | CallDenied():
            return ()
        case CallStarted() | CallParked() | CallAnswered() | CallEnded():
            return ()
        case _:
            assert_never(event)


def _list_removed_ids(event: Durable) -> frozenset[str]:
    return event.ids if isinstance(event, MessageRemoved) else frozenset()
