"""Serve a yard with two tools and open OpenAI's own client of it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from ssl import PROTOCOL_TLS_CLIENT, SSLContext

from msgspec import Struct
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic import BaseModel

from surfaces.api_client import Json
from surfaces.http_server import serve_yard
from toolyard import ToolLike, Yard, tool
from toolyard.app import Wiring
from toolyard.core.items import Call, Item, Result
from toolyard.testing import Script, Scripted
from toolyard.venues.function import as_tool

TEST_TIMEOUT_S = 60.0
HELLO: list[Json] = [{"role": "user", "content": "Hello"}]
added: list[str] = []
"""What the tools below did in this test."""


@tool
def add_to_groceries(item: str) -> str:
    """Add an item to the groceries."""
    added.append(item)
    return f"added {item}"


@tool(approval="ask")
def order(item: str) -> str:
    """Order an item."""
    added.append(f"ordered {item}")
    return f"ordered {item}"


class ParsedOrder(BaseModel):
    """What a structured answer has to be."""

    item: str
    count: int


class Served(Struct, frozen=True):
    """A yard that is served, and what a test sees of it."""

    client: Json
    """`AsyncOpenAI`; its answers are compared as they are, so that no types are needed."""
    yard: Yard
    model: Scripted
    url: str

    async def complete(self, messages: Sequence[Json] = HELLO, **fields: object) -> Json:
        return await self.client.chat.completions.create(model="default", messages=list(messages), **fields)

    async def stream(self, messages: Sequence[Json] = HELLO, **fields: object) -> list[Json]:
        stream = await self.client.chat.completions.create(
            model="default", messages=list(messages), stream=True, **fields
        )
        return [chunk async for chunk in stream]


def serve_script(
    script: Script, tools: Sequence[ToolLike] = (), **options: Json
) -> AbstractAsyncContextManager[Served]:
    """Serve a yard with a scripted model as `serve_model` does."""
    return serve_model(Scripted(script), tools, **options)


@asynccontextmanager
async def serve_model(
    model: Json,
    tools: Sequence[ToolLike] = (),
    *,
    max_retries: int = 0,
    timeout_s: float = TEST_TIMEOUT_S,
    **wiring: Json,
) -> AsyncGenerator[Served, None]:
    """Serve a yard with a model, and open a client of it. The block fails after `timeout_s`."""
    added.clear()
    wiring = {"store": "memory:", "allowed_models": frozenset({"default"}), **wiring}
    wired = Wiring(model=model, tools=[as_tool(tool) for tool in tools], **wiring)
    # Without certificates, which the SDK loads for each client: that takes longer than most of the tests.
    http_client = DefaultAsyncHttpxClient(verify=SSLContext(PROTOCOL_TLS_CLIENT))
    async with (
        asyncio.timeout(timeout_s),
        Yard.from_wiring(wired) as yard,
        serve_yard(yard) as url,
        AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=max_retries, http_client=http_client) as client,
    ):
        yield Served(client, yard, model, url)


def define_tool(name: str, **properties: object) -> Json:
    """Return the definition of a tool that the client runs."""
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


def list_calls(answer: Json) -> list[Json]:
    """Return the calls that the client has to run."""
    calls: list[Json] | None = answer.choices[0].message.tool_calls
    return calls or []


def answer_calls(messages: Sequence[Json], answer: Json, *results: str) -> list[Json]:
    """Return the messages with the answer and a result for each of its calls."""
    calls = list_calls(answer)
    assert len(calls) == len(results)
    tool_messages: list[Json] = [
        {"role": "tool", "tool_call_id": call.id, "content": result}
        for call, result in zip(calls, results, strict=True)
    ]
    return [*messages, to_param(answer), *tool_messages]


def to_param(answer: Json) -> Json:
    """Return the message of an answer as clients send it back."""
    return answer.choices[0].message.model_dump(exclude_none=True)


def join_content(chunks: Sequence[Json]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def list_exchange(history: Sequence[Item]) -> list[str]:
    """Return the calls and results of a history in a short form."""
    return [
        f"{item.tool}{list(item.arguments.values())}" if isinstance(item, Call) else f"{item.tool}={item.content}"
        for item in history
        if isinstance(item, Call | Result)
    ]
