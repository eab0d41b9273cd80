"""The bytes of a streamed answer → the events of one turn, whatever packets they come in and whatever else they are.

It knows server-sent events, answers that are no stream, and streams that break off. What an event says is the business
of a `Reply`, of which each wire has its own.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from toolyard.core.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.items import Problem
from toolyard.core.ports import Clock
from toolyard.models.http.problems import WireFailure, build_failure
from toolyard.models.http.sse import MAX_EVENT_BYTES, EventTooLong, SseParser
from toolyard.models.unicode import repair_unicode

MAX_REPLY_BYTES = 256 * 1024 * 1024
MAX_SHOWN_BYTES = 1_000
DECODE_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What a decoder raises."""
_NO_STREAM = (b"{", b"<")
T = TypeVar("T")


class WireReply(Protocol):
    """What the model has said so far in one turn. Whatever is wrong with it is raised as a WireFailure."""

    @property
    def complete(self) -> bool:
        """The provider said how the reply ended, even if more may come."""
        ...

    def read(self, payload: bytes, events: list[ModelDelta], *, cut: bool = False) -> bool:
        """Take an event in; what it makes is appended to `events`. Whether it was the last one.

        One that is `cut` may have been cut through by the end of the stream: if it cannot be read it says nothing.
        """
        ...

    def read_whole(self, body: bytes, events: list[ModelDelta]) -> None:
        """Take in an answer that is one JSON object instead of a stream."""
        ...

    def build_turn(self, clock: Clock) -> TurnEnded:
        """The whole turn, once the provider has said that it is over."""
        ...


class ReplyReader:
    """Bytes in, events out. Nothing is raised: the last event tells the failure."""

    __slots__ = ("_bytes", "_events", "_failure", "_head", "_heard", "_mint", "_reply", "_whole", "done")

    def __init__(self, reply: WireReply, clock: Clock) -> None:
        self._reply = reply
        self._mint = clock
        self._events: SseParser | None = None
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
                raise build_failure(f"the reply is longer than {MAX_REPLY_BYTES:,} bytes", "model_error")
            if self._events is None:
                packet = self._detect_format(packet)
            if self._events is not None:
                if not self._heard and len(self._head) < MAX_SHOWN_BYTES:
                    self._head += packet
                self._read(self._events.feed(packet), events)
        except WireFailure as error:
            self._fail(error.problem)
        except EventTooLong as error:
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
            if not self.done and not self._reply.complete:
                raise WireFailure(problem or self._describe_incomplete())
            return [*events, self._reply.build_turn(self._mint)]
        except WireFailure as error:
            return [*events, TurnFailed(problem=error.problem)]

    def _detect_format(self, packet: bytes) -> bytes:
        """Decide by the first byte what the body is: servers mislabel it, and some ignore that a stream was asked."""
        self._whole.append(packet)
        if self._bytes > MAX_EVENT_BYTES:
            raise build_failure(f"the reply is longer than {MAX_EVENT_BYTES:,} bytes and no stream", "model_error")
        if len(self._whole) > 1 and self._whole[0].lstrip().startswith(_NO_STREAM):
            return b""
        body = b"".join(self._whole)
        if not body.strip() or body.lstrip().startswith(_NO_STREAM):
            self._whole = [body]
            return b""
        self._whole = []
        self._events = SseParser()
        return body

    def _read_rest(self, events: list[ModelDelta]) -> None:
        if self._events is not None:
            for payload in self._events.end():
                self.done = self._reply.read(payload, events, cut=True) or self.done
        elif body := b"".join(self._whole).strip():
            if body.startswith(b"<"):
                raise build_failure(f"the answer is a page, not a reply: {preview(body)}", "model_error")
            self._reply.read_whole(body, events)
            self.done = True

    def _read(self, payloads: list[bytes], events: list[ModelDelta]) -> None:
        for payload in payloads:
            self._heard = True
            if self._reply.read(payload, events):
                self.done = True
                return

    def _fail(self, problem: Problem) -> None:
        self._failure = problem
        self.done = True

    def _describe_incomplete(self) -> Problem:
        if self._heard:
            said = "the stream broke off before the reply was complete"
        else:
            said = f"the answer holds no reply: {preview(self._head)}" if self._head else "the answer is empty"
        return Problem(error=said, error_type="unavailable")


def decode_payload(payload: bytes, decode: Callable[[bytes], T]) -> T:
    """What is in a payload, with broken characters mended if that is all that is wrong with it."""
    try:
        return decode(repair_unicode(payload))
    except msgspec.ValidationError as error:
        raise build_failure(
            f"the provider sent a chunk that cannot be read ({error}): {preview(payload)}", "model_error"
        ) from None
    except DECODE_ERRORS:
        raise build_failure(
            f"the provider sent something that is not JSON: {preview(payload)}", "model_error"
        ) from None


def preview(body: bytes) -> str:
    return body[:MAX_SHOWN_BYTES].decode("utf-8", "replace")
