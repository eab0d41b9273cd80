"""Toolyard's `mcp` venue as the client under test: the suite starts it with the address of a server of its own.

It lists the tools and calls each of them as a model would, with arguments that fit; a question is answered with the
defaults of its form. Where the server wants a person to sign in, it is the person: it opens the page, and comes back
with what that answers. What the suite wants to see of a scenario it tells in MCP_CONFORMANCE_CONTEXT.
"""

import asyncio
import json
import os
import sys
import urllib.parse
from collections.abc import Iterator
from typing import Any

import httpx2

from toolyard import Yard
from toolyard.core.conversation.events import CallEnded, CallParked
from toolyard.core.tools.mcp_servers import OAuth, ServerSpec, SignInAnswer
from toolyard.testing import Scripted

Json = Any
TIMEOUT_S = 60.0
BACK = "http://127.0.0.1:8765/callback"
SIGN_IN = "toolyard servers login"
MAX_TRIES = 4


async def main(url: str) -> None:
    spec = ServerSpec(url=url, trust=True, pin="off", oauth=_oauth())
    async with asyncio.timeout(TIMEOUT_S), Yard(model=Scripted([]), servers={"suite": spec}) as yard:
        for _ in range(MAX_TRIES):
            failures = [await _call(yard, name, arguments) for name, arguments in _calls(yard)]
            if not any(SIGN_IN in message for message in (yard.servers.cards()[0].error, *failures)):
                break
            await _sign_in(yard)


async def _sign_in(yard: Yard) -> None:
    caller = yard.access.authenticate({})
    started = await yard.servers.sign_ins.begin("suite", caller, BACK)
    async with httpx2.AsyncClient() as browser:
        page = await browser.get(started.url)
    words = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page.headers["location"]).query))
    answer = SignInAnswer(**{name: words[name] for name in words if name in SignInAnswer.__struct_fields__})
    await yard.servers.sign_ins.finish("suite", caller, answer)


def _oauth() -> OAuth | None:
    """As whom we are known, if the suite has told."""
    context = _context()
    if "issuer" not in context:
        return None
    return OAuth(
        issuer=context["issuer"],
        client_id=context["client_id"],
        client_secret=context["client_secret"],
        grant="authorization_code",
    )


def _context() -> Json:
    return json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")


def _calls(yard: Yard) -> Iterator[tuple[str, Json]]:
    context = _context()
    tools: dict[str, Json] = {
        tool.name: tool.parameters for tool in yard.service.tools.list_usable(yard.access.authenticate({}))
    }
    for expected_call in context.get("toolCalls", ()):
        yield expected_call["name"], expected_call.get("arguments") or {}
    for name, schema in tools.items() if not context.get("toolCalls") else ():
        if name == "json_schema_echo":
            yield name, {"schema": tools["json_schema_2020_12_tool"]}
        elif name != "json_schema_2020_12_tool":
            yield name, _sample_arguments(schema)


async def _call(yard: Yard, name: str, arguments: Json) -> str:
    """What came of it, if it came to nothing."""
    call, failure = yard.call(name, arguments), ""
    async for event in call:
        if isinstance(event, CallEnded) and event.result.error is not None:
            failure = event.result.error.error
        if isinstance(event, CallParked):
            content = _sample_arguments(event.question.get("requestedSchema") or {}, defaults_only=True)
            await yard.answer(call.conversation, event.call_id, content)
    return failure


def _sample_arguments(schema: Json, *, defaults_only: bool = False) -> Json:
    """Values for the properties of an object, by their defaults or by their types."""
    samples: Json = {"integer": 2, "number": 2.5, "boolean": True, "array": [], "object": {}}
    arguments: Json = {}
    properties: dict[str, Json] = schema.get("properties") or {}
    for name, about in properties.items():
        if "default" in about:
            arguments[name] = about["default"]
        elif not defaults_only or name in schema.get("required", ()):
            arguments[name] = (about.get("enum") or [samples.get(about.get("type"), "text")])[0]
    return arguments


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
