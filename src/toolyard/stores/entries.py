"""What every store does with entries: encodes them in batches, selects those of the catalog, and looks for a text.

Also the errors that every store raises in the same words.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from toolyard import codec
from toolyard.core.conversation.events import (
    ConversationChanged,
    ConversationOpened,
    Entry,
    HistoryCompacted,
    HistoryRewound,
    MessageAdded,
    MessageRemoved,
    RunEnded,
    RunQueued,
    TurnEnded,
)
from toolyard.core.conversation.search_texts import fold_case, list_removed_ids, list_texts
from toolyard.core.errors import Fenced, RequestRepeated, StoreDown
from toolyard.core.store import CatalogQuery, ConversationCard

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


def decode_searched_entries(batch: bytes) -> list[Entry] | None:
    """Return the entries that a search index reads, or None for a batch that only a newer version can read.

    The others are told by their bytes and left out: decoding them would cost most of the time that an index takes.
    """
    if not _has_searched_tag(batch):  # as those of most turns with calls
        return []
    try:
        return [codec.decode_entry(line) for line in batch.split(b"\n") if _has_searched_tag(line)]
    except msgspec.DecodeError:
        return None


def _has_searched_tag(encoded: bytes) -> bool:
    """Return whether there is an entry with a text of a user or a model, or one that removes messages."""
    return b'"user_message"' in encoded or b'"model_text"' in encoded or b'"message.removed"' in encoded


def select_catalog_entries(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that the catalog is projected from. Each moves its conversation to the front of lists."""
    return [entry for entry in entries if type(entry.event) in _CATALOG_EVENTS or entry.request is not None]


def has_texts(entries: Sequence[Entry]) -> bool:
    """Return whether one of the entries has a text of a user or a model."""
    for entry in entries:
        if type(entry.event) in _EVENTS_WITH_ITEMS and next(list_texts(entry.event), None) is not None:
            return True
    return False


def check_order(conversation: str, entries: Sequence[Entry], first: int) -> None:
    """Raise Fenced unless the entries are numbered without a gap from `first` on."""
    seq = first
    for entry in entries:
        if entry.seq != seq:
            raise Fenced(f"entry {entry.seq} of conversation {conversation!r} is out of order: {seq} comes next")
        seq += 1


def ends_run(entries: Sequence[Entry]) -> bool:
    """Return whether the current run ends with one of the entries."""
    return any(type(entry.event) is RunEnded and not entry.event.run_id for entry in entries)


def list_places(query: CatalogQuery) -> str:
    """Return the places of a query as a list in SQL. They are words of the program, never of a caller."""
    return ", ".join(f"'{place}'" for place in query.places)


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
        removed = {item for entry in removals() for item in list_removed_ids(entry.event)}
        return first not in removed or any(item not in removed for item in matching)
    return False


def build_repeated_error() -> RequestRepeated:
    """Return the error for an entry whose request took effect before."""
    return RequestRepeated("a request with this Idempotency-Key took effect before")


def build_closed_error(address: str = "") -> StoreDown:
    """Return the error for a use of a store that was closed."""
    return StoreDown("the store is closed: open it again", address=address)
