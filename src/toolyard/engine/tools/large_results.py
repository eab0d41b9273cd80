"""Turns a venue's answer into a Result of bounded size. A larger value is stored whole, for the model to read on."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from toolyard.core.conversation.run_state import CallState
from toolyard.core.errors import StoreDown
from toolyard.core.failed_results import build_failed_result, format_problem, to_problem
from toolyard.core.items import Call, Outcome, Part, Problem, Result, TextPart, result_id
from toolyard.core.ports import ORIGINAL_PREFIX, Clock, Failure, Value
from toolyard.core.store import Blobs
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.redactor import Redacted, Redactor
from toolyard.core.tools.trust import join_sources, name_result_source
from toolyard.core.utf8 import find_char_boundary, utf8_size
from toolyard.engine.tools.value_encoding import encode_text, encode_whole, is_large

ENCODING_THREADS = 2
MAX_INLINE_BYTES = 64 * 1024
"""A larger answer is searched for secrets in a thread, so that the event loop is not held up."""
MAX_REDACTED_BYTES = 4 * 1024 * 1024
"""A larger answer with secrets is not kept in the venue's own form: it may have millions of texts."""
T = TypeVar("T")
_log = logging.getLogger("toolyard.results")
_OUTCOMES: dict[str, Outcome] = {"timeout": "timeout", "unknown_outcome": "unknown", "cancelled": "cancelled"}


class ResultEncoder:
    """Encodes answers of tools as results without secrets, and stores what is too large for the model.

    A result with secrets is also stored as it was, for administrators.
    """

    def __init__(self, blobs: Blobs, clock: Clock) -> None:
        self._blobs = blobs
        self._clock = clock
        self._threads = ThreadPoolExecutor(ENCODING_THREADS, thread_name_prefix="toolyard-encode")

    async def encode(
        self,
        call: Call,
        tool: Tool,
        answer: Value | Failure,
        *,
        conversation: str,
        redactor: Redactor,
        duration_ms: float = 0.0,
    ) -> Result:
        """Return the result of a call. It never raises for what the tool returned."""
        now = self._clock.now()
        native = await self._store_native(conversation, answer.native, redactor) if answer.native else ""
        if isinstance(answer, Failure):
            result = await self._encode_failure(call, answer, conversation, redactor)
            # The venue wrote the message, so that it may be an instruction as well.
            source = name_result_source(tool)
            return replace(result, native=native, duration_ms=duration_ms, untrusted=source)
        encoded = await self._encode_value(answer.value, tool.max_result_bytes, redactor)
        if isinstance(encoded, Problem):
            return build_failed_result(call, "error", encoded, now, duration_ms)
        content, handle, size = encoded.content, encoded.handle, len(encoded.whole)
        if handle:
            try:
                await self._blobs.put_blob(conversation, handle, encoded.whole)
            except StoreDown as error:
                error_text = f"the tool ran, but its result of {size:,} bytes could not be kept: {error.reason}"
                return build_failed_result(call, "error", to_problem(error_text, "unavailable"), now, duration_ms)
        if encoded.redacted:
            await self._try_store(conversation, build_original_handle(call.id), encoded.original)
        return Result(
            id=result_id(call.id),
            at=now,
            call_id=call.id,
            tool=call.tool,
            outcome="ok",
            content=content,
            handle=handle,
            whole_bytes=size if handle else 0,
            duration_ms=duration_ms,
            parts=await self._redact_parts(answer.parts, redactor),
            native=native,
            redacted=encoded.redacted,
            untrusted=join_sources(name_result_source(tool), answer.untrusted),
        )

    async def has_text(self, result: Result, text: str, conversation: str, redactor: Redactor) -> bool:
        """Return whether a result is that of a text which an application has delivered."""
        clean = await self._run_in_thread_if_large(lambda text: redactor.redact(text).text, text, len(text))
        whole = await self._blobs.get_blob(conversation, result.handle) if result.handle else result.content.encode()
        return result.outcome == "ok" and whole == clean.encode()

    async def read_whole(self, conversation: str, result: Result) -> bytes | None:
        """Return a whole result as the model could read it, or None if it is not kept any more."""
        return await self._blobs.get_blob(conversation, result.handle) if result.handle else result.content.encode()

    async def _encode_failure(self, call: Call, failure: Failure, conversation: str, redactor: Redactor) -> Result:
        problem, original = failure.problem, format_problem(failure.problem)
        redacted = redactor.redact(original).names
        if redacted:
            await self._try_store(conversation, build_original_handle(call.id), original.encode())
            error, details = redactor.redact(problem.error).text, redactor.redact_mapping(problem.details)
            problem = replace(problem, error=error, details=details)
        outcome = _OUTCOMES.get(problem.error_type, "error")
        return replace(build_failed_result(call, outcome, problem, self._clock.now()), redacted=redacted)

    async def _encode_value(self, value: object, max_bytes: int, redactor: Redactor) -> "EncodedValue | Problem":
        """Return a value as text. A large value is encoded in a thread, so that the event loop is not held up."""
        if is_large(value):
            loop, handle = asyncio.get_running_loop(), self._clock.new_id("result")
            return await loop.run_in_executor(self._threads, encode_large, value, max_bytes, handle, redactor.redact)
        text = encode_text(value)
        if isinstance(text, Problem):
            return text
        clean, redacted = redactor.redact(text)
        encoded = (
            EncodedValue(clean)
            if utf8_size(clean) <= max_bytes
            else truncate(clean.encode(), max_bytes, self._clock.new_id("result"))
        )
        return encoded._replace(redacted=redacted, original=text.encode()) if redacted else encoded

    async def _store_native(self, conversation: str, native: bytes, redactor: Redactor) -> str:
        """Store the answer in the venue's own form and return its handle; empty if it cannot be stored."""
        if redactor.has_patterns:
            native = await self._run_in_thread_if_large(partial(_redact_native, redactor), native, len(native))
        handle = self._clock.new_id("native")
        return handle if native and await self._try_store(conversation, handle, native) else ""

    async def _redact_parts(self, parts: tuple[Part, ...], redactor: Redactor) -> tuple[Part, ...]:
        if not redactor.has_patterns:
            return parts
        size = sum(len(part.url) for part in parts if not isinstance(part, TextPart))
        return await self._run_in_thread_if_large(lambda parts: tuple(map(redactor.redact_part, parts)), parts, size)

    async def _run_in_thread_if_large(self, work: Callable[[T], T], value: T, size: int) -> T:
        """Return `work(value)`, computed in a thread if the value is large: strangers choose its size."""
        if size <= MAX_INLINE_BYTES:
            return work(value)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, value)

    async def _try_store(self, conversation: str, handle: str, body: bytes) -> bool:
        """Return whether a blob was stored that the result can do without."""
        try:
            await self._blobs.put_blob(conversation, handle, body)
        except StoreDown as error:
            _log.warning("an answer of %d bytes could not be kept: %s", len(body), error)
            return False
        return True


def _redact_native(redactor: Redactor, native: bytes) -> bytes:
    """Return the answer without secrets; empty if it has any and is too large to look at each of its texts."""
    if not redactor.redact(native.decode(errors="replace")).names:
        return native
    if len(native) > MAX_REDACTED_BYTES:
        return b""
    return msgspec.json.encode(redactor.redact_json(msgspec.json.decode(native)))


def build_original_handle(call_id: str) -> str:
    """Return the handle of the result of a call as it was before secrets were replaced."""
    return f"{ORIGINAL_PREFIX}{call_id}"


class EncodedValue(NamedTuple):
    """The text for the model and, if that is not all, the whole value with the handle to store it under."""

    content: str
    whole: bytes = b""
    handle: str = ""
    redacted: tuple[str, ...] = ()
    """The names of the patterns that were replaced in `original`."""
    original: bytes = b""


def encode_large(
    value: object, max_bytes: int, handle: str, redact: Callable[[str], Redacted] = Redacted
) -> EncodedValue | Problem:
    whole = encode_whole(value)
    if isinstance(whole, Problem):
        return whole
    text, redacted = redact(whole.decode())
    clean = text.encode() if redacted else whole
    encoded = EncodedValue(text) if len(clean) <= max_bytes else truncate(clean, max_bytes, handle)
    return encoded._replace(redacted=redacted, original=whole) if redacted else encoded


def truncate(whole: bytes, max_bytes: int, handle: str) -> EncodedValue:
    return EncodedValue(_join_head_and_tail(whole, max_bytes, handle), whole, handle)


def _join_head_and_tail(whole: bytes, max_bytes: int, handle: str) -> str:
    room = max(0, max_bytes - 300)  # the note in the middle takes less than 300 bytes
    head, tail = find_char_boundary(whole, room * 2 // 3), room // 3
    first = whole[:head].decode(errors="ignore")
    last = whole[len(whole) - tail :].decode(errors="ignore")
    note = (
        f"\n… [{len(whole):,} bytes in all; the middle is left out here. "
        f'read_result(handle="{handle}", offset={head}) reads on from here; '
        "with pattern instead of offset it finds a text] …\n"
    )
    return f"{first}{note}{last}"


def mention_edit(result: Result, call: CallState) -> Result:
    """Add a note for the model if a person changed the arguments that the call ran with.

    Not to the result of a program's call, which is a value. The result of the program tells of the change.
    """
    if call.approved is None or call.approved.arguments is None or call.parent:
        return result
    edited = msgspec.json.encode(call.approved.arguments).decode()
    return replace(result, content=f"[a person changed the arguments to {edited}]\n{result.content}")
