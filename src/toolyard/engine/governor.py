"""Turns what a tool came to into a Result of bounded size; the whole is kept where the model can read it on.

It does not know how a tool ran.
"""

import logging
from typing import cast

import msgspec
from msgspec.structs import replace

from toolyard.core.errors import StoreDown
from toolyard.core.items import Call, Outcome, Problem, Result, result_id
from toolyard.core.ports import Failure, Mint, Value
from toolyard.core.results import boundary, failed, plain, problem_of
from toolyard.core.running import CallState
from toolyard.core.store import Blobs
from toolyard.core.tools import Tool

MOST_KEPT_BYTES = 64 * 1024 * 1024
_log = logging.getLogger("toolyard.governor")
_OUTCOMES: dict[str, Outcome] = {"timeout": "timeout", "unknown_outcome": "unknown", "cancelled": "cancelled"}


class Governor:
    def __init__(self, blobs: Blobs, mint: Mint) -> None:
        self._blobs = blobs
        self._mint = mint

    async def result(
        self, call: Call, tool: Tool, answer: Value | Failure, *, conversation: str, duration_ms: float = 0.0
    ) -> Result:
        now = self._mint.now()
        native = await self._kept(conversation, answer.native) if answer.native else ""
        if isinstance(answer, Failure):
            outcome = _OUTCOMES.get(answer.problem.error_type, "error")
            told = failed(call, outcome, answer.problem, now, duration_ms)
            return replace(told, native=native) if native else told
        body = encoded(answer.value)
        if isinstance(body, Problem):
            return failed(call, "error", body, now, duration_ms)
        content, handle = body, ""
        size = len(body) if body.isascii() else len(body.encode())
        if size > tool.max_result_bytes:
            handle = self._mint.id("result")
            whole = body.encode()
            try:
                await self._blobs.put(conversation, handle, whole)
            except StoreDown as error:
                said = f"the tool ran, but its result of {size:,} bytes could not be kept: {error.reason}"
                return failed(call, "error", problem_of(said, "unavailable"), now, duration_ms)
            content = _head_and_tail(whole, tool.max_result_bytes, handle)
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
            parts=answer.parts,
            native=native,
        )

    async def _kept(self, conversation: str, native: bytes) -> str:
        """Where the venue's own answer is kept. What the model is told does not hang on it."""
        handle = self._mint.id("native")
        try:
            await self._blobs.put(conversation, handle, native)
        except StoreDown as error:
            _log.warning("an answer of %d bytes could not be kept: %s", len(native), error)
            return ""
        return handle


def encoded(value: object) -> str | Problem:
    """The value as the model will read it: text as it is, everything else as JSON."""
    try:
        text = plain(value) if isinstance(value, str) else msgspec.json.encode(value, enc_hook=_dumped).decode()
    except Exception as error:  # whatever the value's own code raises
        return problem_of(
            f"the tool ran, but what it returned ({type(value).__name__}) cannot be written as JSON: {error}",
            "execution_error",
            {"hint": "return text, numbers, lists, dicts, dataclasses or models"},
        )
    if len(text) > MOST_KEPT_BYTES:
        return Problem(
            error=f"the tool ran, but its result of {len(text):,} characters is over the {MOST_KEPT_BYTES:,} that can "
            "be kept; ask for less, or have the tool return a link",
            error_type="too_large",
        )
    return text


def _dumped(value: object) -> object:
    """A pydantic model, by its own way of writing itself."""
    dump = getattr(value, "model_dump", None)
    dumped = dump(mode="json") if callable(dump) else None
    if not isinstance(dumped, dict | list | str | int | float):
        raise TypeError(f"an object of type {type(value).__name__} has no JSON form")
    return cast(object, dumped)


def _head_and_tail(whole: bytes, most: int, handle: str) -> str:
    room = max(0, most - 300)
    head, tail = boundary(whole, room * 2 // 3), room // 3
    first = whole[:head].decode(errors="ignore")
    last = whole[len(whole) - tail :].decode(errors="ignore")
    note = (
        f"\n… [{len(whole):,} bytes in all; the middle is left out here. "
        f'read_result(handle="{handle}", offset={head}) reads on from here; '
        "with pattern instead of offset it finds a text] …\n"
    )
    return f"{first}{note}{last}"


def told_of_edit(result: Result, call: CallState) -> Result:
    """If a person changed the arguments, the model must know with which ones the call ran."""
    if call.approved is None or call.approved.arguments is None:
        return result
    edited = msgspec.json.encode(call.approved.arguments).decode()
    return replace(result, content=f"[a person changed the arguments to {edited}]\n{result.content}")
