"""Toolyard's `mcp` venue as the client under test: the suite starts it with the address of a server of its own.

It lists the tools and calls each of them as a model would, with arguments that fit; a question is answered with the
defaults of its form. What the suite wants to see of a scenario it tells in MCP_CONFORMANCE_CONTEXT.
"""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from toolyard import Scripted, Yard
from toolyard.core.events import CallParked
from toolyard.core.servers import ServerSpec

Json = Any
PATIENCE_S = 60.0


async def main(url: str) -> None:
    spec = ServerSpec(url=url, trust=True, pin="off")
    async with asyncio.timeout(PATIENCE_S), Yard(model=Scripted([]), servers={"suite": spec}) as yard:
        for name, arguments in _calls(yard):
            await _call(yard, name, arguments)


def _calls(yard: Yard) -> Iterator[tuple[str, Json]]:
    context: Json = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    tools: dict[str, Json] = {tool.name: tool.parameters for tool in yard.service.tools(yard.access.caller({}))}
    for wanted in context.get("toolCalls", ()):
        yield wanted["name"], wanted.get("arguments") or {}
    for name, schema in tools.items() if not context.get("toolCalls") else ():
        if name == "json_schema_echo":
            yield name, {"schema": tools["json_schema_2020_12_tool"]}
        elif name != "json_schema_2020_12_tool":
            yield name, _fitting(schema)


async def _call(yard: Yard, name: str, arguments: Json) -> None:
    call = yard.call(name, arguments)
    async for event in call:
        if isinstance(event, CallParked):
            content = _fitting(event.question.get("requestedSchema") or {}, defaults_only=True)
            await yard.answer(call.conversation, event.call_id, content)


def _fitting(schema: Json, *, defaults_only: bool = False) -> Json:
    """Values for the properties of an object, by their defaults or by their types."""
    samples: Json = {"integer": 2, "number": 2.5, "boolean": True, "array": [], "object": {}}
    found: Json = {}
    properties: dict[str, Json] = schema.get("properties") or {}
    for name, about in properties.items():
        if "default" in about:
            found[name] = about["default"]
        elif not defaults_only or name in schema.get("required", ()):
            found[name] = (about.get("enum") or [samples.get(about.get("type"), "text")])[0]
    return found


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
