"""Reads the bytes of an answer into the events of one turn, independently of how they are split into packets.

It handles server-sent events, answers that are one JSON object, and streams that break off. A `WireReply`, one for each
wire, reads the content of an event.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.items import Problem
from toolyard.core.model_failures import HOSTED_CALL, INTERRUPTED
from toolyard.models.http.problems import WireFailure, build_failure
from toolyard.models.http.sse import MAX_EVENT_BYTES, EventTooLong, SseParser
from toolyard.models.shared.json_values import repair_unicode

MAX_REPLY_BYTES = 256 * 1024 * 1024
MAX_SHOWN_BYTES = 1_000
DECODE_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)
"""The exceptions of a msgspec decoder for malformed input."""
_NO_STREAM = (b"{", b"<")
T = TypeVar("T")


class WireReply(Protocol):
    """The reply of one turn, as far as it has arrived. Its methods raise WireFailure if it cannot be used."""

    @property
    def complete(self) -> bool:
        """Whether the provider has named a finish reason, even if more events may come."""
        ...

    @property
    def hosted_call_began(self) -> bool:
        """Whether the provider has begun to run a tool of its own."""
        ...

    def read(self, payload: bytes, events: list[ModelDelta], *, cut: bool = False) -> bool:
        """Read one event, append its deltas to `events`, and return whether it was the last one.

        `cut` marks an event that the end of the stream may have cut in two: it is ignored if it cannot be decoded.
        """
        ...

    def read_whole(self, body: bytes, events: list[ModelDelta]) -> None:
        """Read an answer that is one JSON object instead of a stream."""
        ...

    def build_turn(self) -> TurnEnded:
        """Return the whole turn, once the reply is complete."""
        ...


class ReplyReader:
    """Turns bytes into events. It raises nothing: a failure becomes the last event, a TurnFailed."""

    __slots__ = ("_bytes", "_events", "_failure", "_head", "_heard", "_reply", "_whole", "done")

    def __init__(self, reply: WireReply) -> None:
        self._reply = reply
        self._events: SseParser | None = None
        self._whole: list[bytes] = []
        """The body so far, while it may still be one JSON object instead of a stream."""
        self._head = b""
        self._heard = False
        """Whether any event arrived; if not, an error shows the head of the body instead."""
        self._failure: Problem | None = None
        self._bytes = 0
        self.done = False
        """Whether nothing more needs to be read."""

    @property
    def failed(self) -> bool:
        return self._failure is not None

    def feed(self, packet: bytes) -> list[ModelDelta]:
        """Return the deltas in the next bytes of the body."""
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
        """Return the last events. `problem` is what interrupted the reading; None if the body simply ended."""
        events: list[ModelDelta] = []
        try:
            if not self.done and problem is None:
                self._read_rest(events)
            if self._failure is not None:
                raise WireFailure(self._failure)
            # With a finish reason the turn is whole: a connection that breaks before `[DONE]` loses nothing.
            if not self.done and not self._reply.complete:
                raise WireFailure(problem or self._describe_incomplete())
            return [*events, self._reply.build_turn()]
        except WireFailure as error:
            problem = error.problem
            if self._reply.hosted_call_began:
                problem = replace(problem, details={**problem.details, HOSTED_CALL: True})
            return [*events, TurnFailed(problem=problem)]

    def _detect_format(self, packet: bytes) -> bytes:
        """Detect by the first byte whether the body is a stream: servers mislabel it, some ignore `stream: true`."""
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
            message = "the stream broke off before the reply was complete"
            return Problem(error=message, error_type="unavailable", details={INTERRUPTED: True})
        message = f"the answer holds no reply: {preview(self._head)}" if self._head else "the answer is empty"
        return Problem(error=message, error_type="unavailable")


def decode_payload(payload: bytes, decode: Callable[[bytes], T]) -> T:
    """Return a payload decoded again with broken characters replaced. Raises WireFailure if that does not help."""
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
