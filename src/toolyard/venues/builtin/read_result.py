"""The built-in tool that reads results which were too large for the model, of the same conversation only."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from toolyard.core.items import Call, Problem
from toolyard.core.ports import (
    FEEDBACK_HANDLE,
    ORIGINAL_PREFIX,
    RECORDED_TURN_PREFIX,
    Context,
    Failure,
    ToolHooks,
    Value,
)
from toolyard.core.store import Blobs
from toolyard.core.tools.definition import Tool
from toolyard.core.utf8 import find_char_boundary

MAX_BYTES = 12_000
MAX_MATCHES = 20
MAX_HITS = 1000
CONTEXT_CHARS = 200
WINDOW_BYTES = 256 * 1024
MAX_CHARACTER_BYTES = 4

READ_RESULT = Tool(
    name="read_result",
    description="Read on in a result that was too large to be shown whole, or find a text in it.",
    read_only=True,
    built_in=True,
    parameters={
        "type": "object",
        "properties": {
            "handle": {"type": "string", "description": "The handle that came with the result"},
            "offset": {"type": "integer", "minimum": 0, "description": "The byte to begin at", "default": 0},
            "length": {"type": "integer", "minimum": 1, "maximum": MAX_BYTES, "default": 8000},
            "pattern": {
                "type": "string",
                "description": "Find this text instead, in upper or lower case; separate several by |",
            },
        },
        "required": ["handle"],
        "additionalProperties": False,
    },
)


class _ReadResultArguments(Struct, forbid_unknown_fields=True):
    handle: str
    offset: Annotated[int, Meta(ge=0)] = 0
    length: Annotated[int, Meta(ge=1, le=MAX_BYTES)] = 8000
    pattern: str = ""


def _validate(arguments: dict[str, object]) -> Problem | None:
    try:
        msgspec.convert(arguments, _ReadResultArguments)
    except msgspec.ValidationError as error:
        return Problem(error=f"wrong arguments: {error}", error_type="validation_error")
    return None


class ReadResultVenue:
    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def tools(self) -> Sequence[Tool]:
        return (READ_RESULT,)

    def hooks(self, tool: str) -> ToolHooks:
        return ToolHooks(validate=_validate)

    async def run(self, call: Call, tool: Tool, context: Context) -> Value | Failure:
        arguments = msgspec.convert(call.arguments, _ReadResultArguments)
        # Recorded turns and results with secrets are stored beside the results, but are not for a model to read.
        hidden = arguments.handle.startswith((RECORDED_TURN_PREFIX, ORIGINAL_PREFIX, FEEDBACK_HANDLE))
        body = None if hidden else await self._blobs.get_blob(context.conversation, arguments.handle)
        if body is None:
            error_text = f"there is no result {arguments.handle[:80]!r} in this conversation"
            return Failure(problem=Problem(error=error_text, error_type="not_found"))
        if not arguments.pattern:
            return Value(value=_slice(body, arguments))
        find = partial(_find, body, arguments.pattern)
        return Value(value=await asyncio.to_thread(find) if len(body) > WINDOW_BYTES else find())

    async def close(self) -> None:
        return None


def _slice(body: bytes, arguments: _ReadResultArguments) -> dict[str, object]:
    start = find_char_boundary(body, min(arguments.offset, len(body)))
    end = find_char_boundary(body, min(arguments.offset + arguments.length, len(body)))
    continuation: dict[str, object] = {"next_offset": end} if end < len(body) else {}
    return {"text": body[start:end].decode(), "offset": start, "total_bytes": len(body), **continuation}


def _find(body: bytes, pattern: str) -> dict[str, object]:
    """Return where a text occurs, with the text around it."""
    alternatives = [part for part in pattern.split("|") if part]
    hits = list(islice(_iter_hits(body, alternatives), MAX_HITS)) if alternatives else []
    matches = [{"offset": start, "text": _extract_context(body, start, end)} for start, end in hits[:MAX_MATCHES]]
    return {"matches": matches, "found": len(hits), "total_bytes": len(body)}


def _iter_hits(body: bytes, alternatives: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the byte offsets at which each hit begins and ends."""
    pattern = re.compile("|".join(map(re.escape, alternatives)), re.IGNORECASE)
    # Window by window: one search of a large result would hold the interpreter lock, and so all other requests. Each
    # window is read a little further than its end, so that a hit across the border is found whole.
    overlap = MAX_CHARACTER_BYTES * max(map(len, alternatives))
    previous_end = 0
    for start in range(0, len(body), WINDOW_BYTES):
        first, last = find_char_boundary(body, start), find_char_boundary(body, min(start + WINDOW_BYTES, len(body)))
        text = body[first : find_char_boundary(body, min(last + overlap, len(body)))].decode()
        # Offsets are in bytes, hits in characters: `at` is the byte offset of the character `counted`.
        at, counted = first, 0
        for hit in pattern.finditer(text):
            at += len(text[counted : hit.start()].encode())
            counted = hit.start()
            if at >= last:  # it begins in the next window, which finds it too
                break
            if at >= previous_end:
                previous_end = at + len(hit.group().encode())
                yield at, previous_end


def _extract_context(body: bytes, start: int, end: int) -> str:
    context_bytes = CONTEXT_CHARS * MAX_CHARACTER_BYTES
    before = body[find_char_boundary(body, max(0, start - context_bytes)) : start].decode()[-CONTEXT_CHARS:]
    after = body[end : find_char_boundary(body, min(len(body), end + context_bytes))].decode()[:CONTEXT_CHARS]
    return f"{before}{body[start:end].decode()}{after}"
