"""What every store does with entries: encodes them in batches, selects those of the catalog, and looks for a text.

Also the errors that every store raises in the same words.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import assert_never

import msgspec

from toolyard import codec
from toolyard.core.conversation.events import (
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
    HistoryRewound,
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
from toolyard.core.errors import RequestRepeated, StoreDown
from toolyard.core.items import Item, ModelText, TextPart, UserMessage
from toolyard.core.store import ConversationCard

_CATALOG_EVENTS = frozenset(
    {
        ConversationOpened,
        ConversationChanged,
        MessageAdded,
        MessageRemoved,
        HistoryRewound,
        RunQueued,
        RunEnded,
    }
)

_EVENTS_WITH_ITEMS = frozenset({MessageAdded, RunQueued, TurnEnded, HistoryCompacted, RunEnded})


def encode_batch(entries: Sequence[Entry]) -> bytes:
    """Return a batch as stores with rows keep it: one line for each entry."""
    return b"\n".join(codec.encode_entries(entries))


def decode_batch(batch: bytes) -> Iterator[Entry]:
    return map(codec.decode_entry, batch.split(b"\n"))


def decode_readable_batch(batch: bytes) -> list[Entry]:
    """Return the entries, or none of a batch that only a newer version can read."""
    try:
        return list(decode_batch(batch))
    except msgspec.DecodeError:
        return []


def select_catalog_entries(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that the catalog is projected from. Each moves its conversation to the front of lists."""
    return [entry for entry in entries if type(entry.event) in _CATALOG_EVENTS or entry.request is not None]


def has_texts(entries: Sequence[Entry]) -> bool:
    """Return whether one of the entries has a text of a user or a model."""
    events = [entry.event for entry in entries if type(entry.event) in _EVENTS_WITH_ITEMS]
    return any(True for event in events for _ in list_texts(event))


def ends_run(entries: Sequence[Entry]) -> bool:
    """Return whether the current run ends with one of the entries."""
    return any(type(entry.event) is RunEnded and not entry.event.run_id for entry in entries)


def fold_case(text: str) -> str:
    """Return the text in lower case, one character for each, and none that becomes ASCII only by folding.

    SQLite's LIKE, which preselects batches, folds ASCII only: `build_pattern` relies on both properties.
    """
    text = text.replace("\u0130", "\u0131").replace("\u212a", "\u1d0b")  # else İ becomes two, the Kelvin sign a k
    return text.lower().replace("ς", "σ")


def contains_text(card: ConversationCard, needle: str, entries: Sequence[Entry]) -> bool:
    """Return whether the title, the description or a message in the log contains the folded text."""
    return is_titled(card, needle) or is_mentioned(needle, entries, lambda: entries)


def is_titled(card: ConversationCard, needle: str) -> bool:
    """Return whether the title or the description contains the folded text."""
    return needle in fold_case(card.title) or needle in fold_case(card.description)


def is_mentioned(needle: str, entries: Iterable[Entry], removals: Callable[[], Iterable[Entry]]) -> bool:
    """Return whether a message that was not removed contains the folded text. `removals` is called only if needed."""
    matching = (item for entry in entries for item, text in list_texts(entry.event) if needle in fold_case(text))
    for first in matching:
        removed = {item for entry in removals() for item in _list_removed_ids(entry.event)}
        return first not in removed or any(item not in removed for item in matching)
    return False


def list_texts(event: Durable) -> Iterator[tuple[str, str]]:
    """Yield each text of a user or a model, with the id of its item."""
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
        case ConversationOpened() | ConversationChanged() | MessageRemoved() | HistoryRewound():
            return ()
        case StopRequested() | RunSuspended():
            return ()
        case RunStarted() | TurnStarted() | TurnFailed() | CallJudged() | CallApproved() | CallDenied():
            return ()
        case CallStarted() | CallParked() | CallAnswered() | CallEnded():
            return ()
        case _:
            assert_never(event)


def _list_removed_ids(event: Durable) -> frozenset[str]:
    return event.ids if isinstance(event, MessageRemoved) else frozenset()


def build_repeated_error() -> RequestRepeated:
    """Return the error for an entry whose request took effect before."""
    return RequestRepeated("a request with this Idempotency-Key took effect before")


def build_closed_error(address: str = "") -> StoreDown:
    """Return the error for a use of a store that was closed."""
    return StoreDown("the store is closed: open it again", address=address)
