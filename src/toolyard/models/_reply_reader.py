"""The bytes of one reply → the events of one turn, whatever the dialect. Pure: it does not know sockets or deadlines.

A dialect brings two things: how one event's data is decoded, and a Reply, which makes events of what was decoded.
"""

import contextlib
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

from toolyard.core.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.items import Problem
from toolyard.core.ports import Mint
from toolyard.models._problems import WireFailure, failure, words_of
from toolyard.models._sse import MAX_EVENT_BYTES, Events, TooLong
from toolyard.models._unicode import mended

MAX_REPLY_BYTES = 256 * 1024 * 1024
SHOWN_BYTES = 1_000
_NO_STREAM = (b"{", b"[", b"<")

C = TypeVar("C")
C_contra = TypeVar("C_contra", contravariant=True)


class Reply(Protocol[C_contra]):
    """What the model has said so far in one turn. What it cannot go on from it raises as a WireFailure."""

    @property
    def over(self) -> bool:
        """The provider has said how the reply ends: if the body ends now, nothing is missing."""
        ...

    @property
    def complete(self) -> bool:
        """Nothing more needs to be read."""
        ...

    def holds(self, chunk: C_contra) -> bool:
        """Whether a body that is no stream holds a reply all the same."""
        ...

    def add(self, chunk: C_contra, events: list[ModelDelta], *, damaged: bool = False) -> None:
        """Take a chunk in; the events that it makes are appended to `events`."""
        ...

    def ended(self, mint: Mint) -> TurnEnded: ...


class ReplyReader(Generic[C]):
    """Bytes in, events out, whatever packets they come in. Nothing is raised: the last event tells the failure."""

    __slots__ = ("_bytes", "_decode", "_events", "_failure", "_head", "_heard", "_mint", "_reply", "_whole", "done")

    def __init__(self, reply: Reply[C], decode: Callable[[bytes], C], mint: Mint) -> None:
        self._reply = reply
        self._decode = decode
        self._mint = mint
        self._events: Events | None = None
        self._whole: list[bytes] = []
        """The body, as long as it may be one JSON object instead of a stream."""
        self._head = b""
        self._heard = False
        """An event came; if none did, the head of the body is all there is to tell."""
        self._failure: Problem | None = None
        self._bytes = 0
        self.done = False
        """Nothing more needs to be read."""

    @property
    def failed(self) -> bool:
        return self._failure is not None

    def feed(self, packet: bytes) -> list[ModelDelta]:
        """The deltas in the next bytes of the body."""
        events: list[ModelDelta] = []
        self._bytes += len(packet)
        try:
            if self._bytes > MAX_REPLY_BYTES:
                raise failure(f"the reply is longer than {MAX_REPLY_BYTES:,} bytes", "model_error")
            if self._events is None:
                packet = self._begin(packet)
            if self._events is not None:
                if not self._heard and len(self._head) < SHOWN_BYTES:
                    self._head += packet
                self._read(self._events.feed(packet), events)
                self.done = self.done or self._reply.complete
        except WireFailure as error:
            self._fail(error.problem)
        except TooLong as error:
            self._fail(Problem(error=str(error), error_type="model_error"))
        return events

    def end(self, problem: Problem | None = None) -> list[ModelDelta | TurnEnded | TurnFailed]:
        """The last events. `problem` is what ended the reading, unless the body simply ended."""
        events: list[ModelDelta] = []
        try:
            if not self.done and problem is None:
                self._read_rest(events)
            if self._failure is not None:
                raise WireFailure(self._failure)
            if not self.done and not self._reply.over:
                raise WireFailure(problem or self._broken_off())
            return [*events, self._reply.ended(self._mint)]
        except WireFailure as error:
            return [*events, TurnFailed(problem=error.problem)]

    def _begin(self, packet: bytes) -> bytes:
        """Decide by the first byte what the body is: servers mislabel it, and some ignore that a stream was asked."""
        self._whole.append(packet)
        if self._bytes > MAX_EVENT_BYTES:
            raise failure(f"the reply is longer than {MAX_EVENT_BYTES:,} bytes and no stream", "model_error")
        if len(self._whole) > 1 and self._whole[0].lstrip().startswith(_NO_STREAM):
            return b""
        body = b"".join(self._whole)
        if not body.strip() or body.lstrip().startswith(_NO_STREAM):
            self._whole = [body]
            return b""
        self._whole = []
        self._events = Events()
        return body

    def _read_rest(self, events: list[ModelDelta]) -> None:
        if self._events is not None:
            for payload in self._events.end():
                self._read_last(payload, events)
        elif body := b"".join(self._whole).strip():
            if body.startswith(b"<"):
                raise failure(f"the answer is a page, not a reply: {_shown(body)}", "model_error")
            chunk = self._decoded(body)
            self._reply.add(chunk, events)
            if not self._reply.holds(chunk):
                raise failure(f"the answer holds no reply: {words_of(body)[0]}", "model_error")
            self.done = True

    def _read_last(self, payload: bytes, events: list[ModelDelta]) -> None:
        """An event that the stream ended in: one that was cut through says nothing."""
        if payload.strip() == b"[DONE]":
            self.done = True
            return
        with contextlib.suppress(msgspec.DecodeError, UnicodeError, RecursionError):
            self._reply.add(self._decode(payload), events)

    def _read(self, payloads: list[bytes], events: list[ModelDelta]) -> None:
        for payload in payloads:
            self._heard = True
            try:
                chunk = self._decode(payload)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                if payload.strip() == b"[DONE]":
                    self.done = True
                    return
                self._reply.add(self._decoded(payload), events, damaged=True)
            else:
                self._reply.add(chunk, events)

    def _fail(self, problem: Problem) -> None:
        self._failure = problem
        self.done = True

    def _broken_off(self) -> Problem:
        if self._heard:
            said = "the stream broke off before the reply was complete"
        else:
            said = f"the answer holds no reply: {_shown(self._head)}" if self._head else "the answer is empty"
        return Problem(error=said, error_type="unavailable")

    def _decoded(self, payload: bytes) -> C:
        """The chunk in a payload, with broken characters mended if that is all that is wrong with it."""
        try:
            return self._decode(mended(payload))
        except msgspec.ValidationError as error:
            raise failure(
                f"the provider sent a chunk that cannot be read ({error}): {_shown(payload)}", "model_error"
            ) from None
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise failure(f"the provider sent something that is not JSON: {_shown(payload)}", "model_error") from None


def _shown(body: bytes) -> str:
    return body[:SHOWN_BYTES].decode("utf-8", "replace")
