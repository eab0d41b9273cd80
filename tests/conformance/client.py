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

from toolyard import Scripted, Yard
from toolyard.core.events import CallEnded, CallParked
from toolyard.core.mcp_servers import OAuth, ServerSpec, SignInAnswer

Json = Any
PATIENCE_S = 60.0
BACK = "http://127.0.0.1:8765/callback"
SIGN_IN = "toolyard servers login"
MOST_TRIES = 4


async def main(url: str) -> None:
    spec = ServerSpec(url=url, trust=True, pin="off", oauth=_oauth())
    async with asyncio.timeout(PATIENCE_S), Yard(model=Scripted([]), servers={"suite": spec}) as yard:
        for _ in range(MOST_TRIES):
            said = [await _call(yard, name, arguments) for name, arguments in _calls(yard)]
            if not any(SIGN_IN in one for one in (yard.servers.cards()[0].error, *said)):
                break
            await _signed_in(yard)


async def _signed_in(yard: Yard) -> None:
    caller = yard.access.authenticate({})
    begun = await yard.servers.sign_ins.begin("suite", caller, BACK)
    async with httpx2.AsyncClient() as browser:
        page = await browser.get(begun.url)
    words = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page.headers["location"]).query))
    answer = SignInAnswer(**{name: words[name] for name in words if name in SignInAnswer.__struct_fields__})
    await yard.servers.sign_ins.finish("suite", caller, answer)


def _oauth() -> OAuth | None:
    """As whom we are known, if the suite has told."""
    known = _context()
    if "issuer" not in known:
        return None
    return OAuth(
        issuer=known["issuer"],
        client_id=known["client_id"],
        client_secret=known["client_secret"],
        grant="authorization_code",
    )


def _context() -> Json:
    return json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")


def _calls(yard: Yard) -> Iterator[tuple[str, Json]]:
    context = _context()
    tools: dict[str, Json] = {
        tool.name: tool.parameters for tool in yard.service.list_tools(yard.access.authenticate({}))
    }
    for wanted in context.get("toolCalls", ()):
        yield wanted["name"], wanted.get("arguments") or {}
    for name, schema in tools.items() if not context.get("toolCalls") else ():
        if name == "json_schema_echo":
            yield name, {"schema": tools["json_schema_2020_12_tool"]}
        elif name != "json_schema_2020_12_tool":
            yield name, _fitting(schema)


async def _call(yard: Yard, name: str, arguments: Json) -> str:
    """What came of it, if it came to nothing."""
    call, failure = yard.call(name, arguments), ""
    async for event in call:
        if isinstance(event, CallEnded) and event.result.error is not None:
            failure = event.result.error.error
        if isinstance(event, CallParked):
            content = _fitting(event.question.get("requestedSchema") or {}, defaults_only=True)
            await yard.answer(call.conversation, event.call_id, content)
    return failure


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
