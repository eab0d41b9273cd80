"""`/me/instructions`: a text of the caller for all their conversations."""

from typing import Annotated

from litestar import get, put
from litestar.params import JSONBody
from msgspec import Meta, Struct

from toolyard.engine.access.instructions import MAX_INSTRUCTION_BYTES
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context

INSTRUCTIONS_PATH = "/me/instructions"


class InstructionsBody(Struct, forbid_unknown_fields=True, kw_only=True):
    text: Annotated[str, Meta(max_length=100_000)]
    """At most 8,000 bytes; empty deletes the instructions."""


class InstructionsAnswer(Struct, kw_only=True):
    text: str
    """Empty if there are none."""
    max_bytes: int = MAX_INSTRUCTION_BYTES
    success: bool = True


@get(INSTRUCTIONS_PATH, responses=ERRORS, tags=["server"])
async def read_instructions(request: HttpRequest) -> InstructionsAnswer:
    """Return the caller's own instructions."""
    caller = get_request_context(request.scope).caller
    return InstructionsAnswer(text=await request.backend.service.instructions.read(caller))


@put(INSTRUCTIONS_PATH, responses=ERRORS, tags=["server"])
async def write_instructions(request: HttpRequest, data: JSONBody[InstructionsBody]) -> InstructionsAnswer:
    """Set the caller's own instructions for all their conversations, from the next message on.

    Models are shown them as the words of the user, not of this server. A run keeps those that it began with.
    """
    service, caller = request.backend.service, get_request_context(request.scope).caller
    await service.instructions.write(caller, data.text)
    return InstructionsAnswer(text=await service.instructions.read(caller))


ROUTES = (read_instructions, write_instructions)
