"""The texts of people and models in the events of a log, and how a search compares and shows them. Pure."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from msgspec import Struct

from toolyard.core.conversation.events import (
    CallAnswered,
    CallApproved,
    CallDenied,
    CallEnded,
    CallJudged,
    CallParked,
    CallsRequested,
    CallStarted,
    ConversationChanged,
    ConversationOpened,
    Durable,
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
from toolyard.core.items import Item, ModelText, TextPart, UserMessage

PASSAGE_CHARS = 160
"""How much of a text is shown around a match, on both sides together."""
MAX_CANDIDATES = 50
"""Matches that are remembered while a log is read: those before may be removed later in it."""


def fold_case(text: str) -> str:
    """Return the text in lower case, one character for each, and none that becomes ASCII only by folding.

    SQLite's LIKE, which preselects batches, folds ASCII only: `build_pattern` relies on both properties.
    """
    text = text.replace("\u0130", "\u0131").replace("\u212a", "\u1d0b")  # else İ becomes two, the Kelvin sign a k
    return text.lower().replace("ς", "σ")


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
        case CallStarted() | CallParked() | CallAnswered() | CallEnded() | CallsRequested():
            return ()
        case _:
            assert_never(event)


def list_removed_ids(event: Durable) -> frozenset[str]:
    """Return the ids of the items that an event removes."""
    return event.ids if isinstance(event, MessageRemoved) else frozenset()


class Passage(Struct, frozen=True, kw_only=True):
    """A piece of a message that contains the text of a search, on one line."""

    message_id: str
    text: str
    start: int
    """Where the match begins in `text`, in characters."""
    length: int


class PassageFinder:
    """Finds the first passage with a text in the events of a log, given one after the other."""

    def __init__(self, text: str) -> None:
        self._needle = fold_case(text)
        self._found: dict[str, str] = {}

    def add(self, events: Iterable[Durable]) -> None:
        for event in events:
            for item in list_removed_ids(event):
                self._found.pop(item, None)
            if len(self._found) < MAX_CANDIDATES:
                for item, text in list_texts(event):
                    if self._needle in fold_case(text):
                        self._found.setdefault(item, text)

    def build_passage(self) -> Passage | None:
        """Return the first passage of a message that was not removed; None if there is none."""
        for item, text in self._found.items():
            return cut_passage(item, text, fold_case(text).index(self._needle), len(self._needle))
        return None


def cut_passage(message_id: str, text: str, start: int, length: int) -> Passage:
    """Return the part of a text around a match, with `…` where something was left out."""
    length = min(length, PASSAGE_CHARS)
    begin = max(0, start - PASSAGE_CHARS // 3)
    before, end = " ".join(text[begin:start].split()), begin + PASSAGE_CHARS + length
    before = f"{'…' if begin else ''}{before}{' ' if before and text[start - 1].isspace() else ''}"
    match = " ".join(text[start : start + length].split())
    after = text[start + length : end]
    after = f"{' ' if after[:1].isspace() else ''}{' '.join(after.split())}{'…' if end < len(text) else ''}"
    return Passage(message_id=message_id, text=before + match + after, start=len(before), length=len(match))
