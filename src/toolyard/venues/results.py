"""The built-in tool that reads results which were too large for the model. It reads only its own conversation's."""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from toolyard.core.items import Call, Problem
from toolyard.core.ports import KEPT_TURN, Context, Failure, Own, Value
from toolyard.core.results import boundary
from toolyard.core.store import Blobs
from toolyard.core.tools import Tool

MOST_BYTES = 12_000
MOST_MATCHES = 20
MOST_FOUND = 1000
AROUND = 200

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
            "length": {"type": "integer", "minimum": 1, "maximum": MOST_BYTES, "default": 8000},
            "pattern": {
                "type": "string",
                "description": "Find this text instead, in upper or lower case; separate several by |",
            },
        },
        "required": ["handle"],
        "additionalProperties": False,
    },
)


class _Arguments(Struct, forbid_unknown_fields=True):
    handle: str
    offset: Annotated[int, Meta(ge=0)] = 0
    length: Annotated[int, Meta(ge=1, le=MOST_BYTES)] = 8000
    pattern: str = ""


def _check(arguments: dict[str, object]) -> Problem | None:
    try:
        msgspec.convert(arguments, _Arguments)
    except msgspec.ValidationError as error:
        return Problem(error=f"wrong arguments: {error}", error_type="validation_error")
    return None


class ResultsVenue:
    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def tools(self) -> Sequence[Tool]:
        return (READ_RESULT,)

    def own(self, tool: str) -> Own:
        return Own(check=_check)

    async def run(self, call: Call, tool: Tool, context: Context) -> Value | Failure:
        wanted = msgspec.convert(call.arguments, _Arguments)
        hidden = wanted.handle.startswith(KEPT_TURN)
        body = None if hidden else await self._blobs.get(context.conversation, wanted.handle)
        if body is None:
            said = f"there is no result {wanted.handle[:80]!r} in this conversation"
            return Failure(problem=Problem(error=said, error_type="not_found"))
        return Value(value=_found(body, wanted.pattern) if wanted.pattern else _slice(body, wanted))

    async def close(self) -> None:
        return None


def _slice(body: bytes, wanted: _Arguments) -> dict[str, object]:
    start = boundary(body, min(wanted.offset, len(body)))
    end = boundary(body, min(wanted.offset + wanted.length, len(body)))
    after: dict[str, object] = {"next_offset": end} if end < len(body) else {}
    return {"text": body[start:end].decode(), "offset": start, "total_bytes": len(body), **after}


def _found(body: bytes, pattern: str) -> dict[str, object]:
    text = body.decode()
    wanted = "|".join(re.escape(part) for part in pattern.split("|") if part)
    hits = list(islice(re.finditer(wanted, text, re.IGNORECASE), MOST_FOUND)) if wanted else []
    matches = [
        {"offset": len(text[: hit.start()].encode()), "text": text[max(0, hit.start() - AROUND) : hit.end() + AROUND]}
        for hit in hits[:MOST_MATCHES]
    ]
    return {"matches": matches, "found": len(hits), "total_bytes": len(body)}
