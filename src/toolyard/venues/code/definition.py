"""The definition of `run_code`. Its text never changes with the tools: prompt caches of providers depend on it."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from toolyard.core.items import Problem
from toolyard.core.tools.definition import RUN_CODE_NAME, Tool

MAX_CODE_CHARS = 50_000

RUN_CODE = Tool(
    name=RUN_CODE_NAME,
    description=(
        "Run a Python program that calls tools. Use it for several calls that depend on each other, for loops over "
        "calls, and to filter or join large results, so that only what matters comes back. Every tool that you are "
        "offered is also an async function of the same name with keyword arguments: `order = await get_order(id=1)`. "
        "Tools that find_tools finds can be called as well; it also tells what they return.\n"
        "- Make independent calls at once: `a, b = await asyncio.gather(f(x=1), g(y=2))`.\n"
        "- The value of the last expression is the result; what is printed comes with it.\n"
        "- A call that fails, is denied or expires raises an exception: catch it where the program can go on.\n"
        "- Python with json, re, math, datetime, asyncio and a few other standard modules; no other packages, files, "
        "network or environment, no classes with bases, no create_task. Sleeping takes no time.\n"
        "- The program may be run again from its start to go on after a wait: its calls are not repeated."
    ),
    idempotent=True,
    retries=0,
    max_result_bytes=16_384,
    parameters={
        "type": "object",
        "properties": {"code": {"type": "string", "maxLength": MAX_CODE_CHARS, "description": "The program"}},
        "required": ["code"],
        "additionalProperties": False,
    },
)


class RunCodeArguments(Struct, forbid_unknown_fields=True):
    code: Annotated[str, Meta(min_length=1, max_length=MAX_CODE_CHARS)]


def validate_arguments(arguments: dict[str, object]) -> Problem | None:
    try:
        msgspec.convert(arguments, RunCodeArguments)
    except msgspec.ValidationError as error:
        return Problem(error=f"wrong arguments: {error}", error_type="validation_error")
    return None
