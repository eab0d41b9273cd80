"""Sends what is published in the conversations of this process to the replicas whose readers follow them.

New entries are only announced, as they are in the store. Fleeting events are sent themselves, in batches: a delta costs
one message for many.
"""

import asyncio
from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from toolyard.core.conversation.events import (
    ArgumentsAppended,
    CallProgressed,
    Fleeting,
    ReasoningAppended,
    TextAppended,
)
from toolyard.core.store import MAX_MESSAGE_BYTES, Bus
from toolyard.core.utf8 import utf8_size
from toolyard.engine.log.replica_messages import LiveEvents, LogGrew, encode_message

FLUSH_S = 0.02
MAX_PENDING_EVENTS = 20_000
"""Events that wait for the next batch. Beyond this new ones are dropped: the end of the turn holds the whole text."""

Delta = TextAppended | ReasoningAppended | ArgumentsAppended


class Relay:
    """Collects fleeting events and sends them every FLUSH_S."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._pending: dict[tuple[str, int], tuple[set[str], list[Fleeting]]] = {}
        self._pending_count = 0
        self._timer: asyncio.TimerHandle | None = None

    def announce(self, conversation: str, followers: Collection[str]) -> None:
        """Tell the followers that entries were committed."""
        self.flush()  # in the order in which readers of this process get them
        body = encode_message(LogGrew(conversation))
        for replica in followers:
            self._bus.tell(replica, body)

    def add(self, conversation: str, epoch: int, followers: Collection[str], event: Fleeting) -> None:
        """Send an event with the next batch."""
        if self._pending_count >= MAX_PENDING_EVENTS:
            return
        replicas, events = self._pending.setdefault((conversation, epoch), (set(), []))
        replicas.update(followers)
        events.append(event)
        self._pending_count += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self.flush)

    def send(self, conversation: str, epoch: int, replicas: Collection[str], events: Sequence[Fleeting]) -> None:
        """Send events at once: what is live in a conversation, for a follower that joined."""
        for body in _encode_batches(conversation, epoch, _join_deltas(events)):
            for replica in replicas:
                self._bus.tell(replica, body)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pending, self._pending, self._pending_count = self._pending, {}, 0
        for (conversation, epoch), (replicas, events) in pending.items():
            self.send(conversation, epoch, replicas, events)


def _join_deltas(events: Sequence[Fleeting]) -> list[Fleeting]:
    """Join neighbouring deltas of one stream."""
    joined: list[Fleeting] = []
    texts: list[str] = []

    def close() -> None:
        if joined and texts and not isinstance(last := joined[-1], CallProgressed):
            joined[-1] = replace(last, text="".join(texts))
        texts.clear()

    for event in events:
        if joined and not isinstance(event, CallProgressed) and _continues(joined[-1], event):
            texts.append(event.text)
            continue
        close()
        joined.append(event)
        if not isinstance(event, CallProgressed):
            texts.append(event.text)
    close()
    return joined


def _continues(first: Fleeting, delta: Delta) -> bool:
    """Return whether two neighbouring events are deltas of one stream: each then begins where the last one ended."""
    if isinstance(first, CallProgressed) or type(first) is not type(delta) or first.turn != delta.turn:
        return False
    if isinstance(first, TextAppended) and isinstance(delta, TextAppended) and (first.logprobs or delta.logprobs):
        return False  # their readers need to know which tokens are whose
    if isinstance(first, ReasoningAppended) and isinstance(delta, ReasoningAppended):
        return not first.signature and not delta.signature
    return not isinstance(delta, ArgumentsAppended) or (
        isinstance(first, ArgumentsAppended) and first.index == delta.index
    )


def _encode_batches(conversation: str, epoch: int, events: Sequence[Fleeting]) -> Iterator[bytes]:
    """Yield messages with the events, each within the limit of the bus. An event that cannot be split is left out."""
    if not events:
        return
    body = encode_message(LiveEvents(conversation, epoch, tuple(events)))
    if len(body) <= MAX_MESSAGE_BYTES:
        yield body
    elif len(events) > 1:
        middle = len(events) // 2
        yield from _encode_batches(conversation, epoch, events[:middle])
        yield from _encode_batches(conversation, epoch, events[middle:])
    elif not isinstance(events[0], CallProgressed) and len(events[0].text) > 1:
        yield from _encode_batches(conversation, epoch, _split(events[0]))


def _split(delta: Delta) -> tuple[Delta, Delta]:
    middle = len(delta.text) // 2
    head, tail = delta.text[:middle], delta.text[middle:]
    if isinstance(delta, TextAppended):
        delta = replace(delta, logprobs="")  # which of its tokens are in which half is not known
    first = replace(delta, signature="") if isinstance(delta, ReasoningAppended) else delta
    return replace(first, text=head), replace(delta, text=tail, offset=delta.offset + utf8_size(head))
