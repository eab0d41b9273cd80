"""Serve a yard and open Anthropic's own client of it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from anthropic import AsyncAnthropic
from msgspec import Struct

from surfaces.api_client import Json
from surfaces.http_server import serve_yard
from toolyard import ToolLike, Yard
from toolyard.app import Wiring
from toolyard.testing import Script, Scripted
from toolyard.venues.function import as_tool

TEST_TIMEOUT_S = 60.0
HELLO: list[Json] = [{"role": "user", "content": "Hello"}]
MAX_TOKENS = 1_000


class ServedMessages(Struct, frozen=True):
    """A yard that is served, and what a test sees of it."""

    client: Json
    """`AsyncAnthropic`; its answers are compared as they are, so that no types are needed."""
    yard: Yard
    model: Scripted
    url: str

    async def create(self, messages: Sequence[Json] = HELLO, **fields: Json) -> Json:
        fields = {"model": "default", "max_tokens": MAX_TOKENS, **fields}
        return await self.client.messages.create(messages=list(messages), **fields)

    async def stream(self, messages: Sequence[Json] = HELLO, **fields: Json) -> tuple[list[Json], Json]:
        """Return the raw events of a stream, and the message that the client has put together from them."""
        fields = {"model": "default", "max_tokens": MAX_TOKENS, **fields}
        events: list[Json] = []
        async with self.client.messages.stream(messages=list(messages), **fields) as stream:
            async for event in stream:
                events.append(event)
            return events, await stream.get_final_message()


def serve_script(
    script: Script, tools: Sequence[ToolLike] = (), **options: Json
) -> AbstractAsyncContextManager[ServedMessages]:
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
) -> AsyncGenerator[ServedMessages, None]:
    """Serve a yard with a model, and open a client of it. The block fails after `timeout_s`."""
    wiring = {"store": "memory:", "allowed_models": frozenset({"default"}), **wiring}
    wired = Wiring(model=model, tools=[as_tool(tool) for tool in tools], **wiring)
    async with (
        asyncio.timeout(timeout_s),
        Yard.from_wiring(wired) as yard,
        serve_yard(yard) as url,
        AsyncAnthropic(base_url=url, api_key="unused", max_retries=max_retries) as client,
    ):
        yield ServedMessages(client, yard, model, url)


def define_tool(name: str, **properties: object) -> Json:
    """Return the definition of a tool that the client runs."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": name, "input_schema": schema}


def join_texts(message: Json) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def list_calls(message: Json) -> list[Json]:
    """Return the calls that the client has to run."""
    return [block for block in message.content if block.type == "tool_use"]


def to_param(message: Json) -> Json:
    """Return an answer as clients send it back."""
    return {"role": "assistant", "content": [block.to_dict() for block in message.content]}


def answer_calls(messages: Sequence[Json], message: Json, *results: str) -> list[Json]:
    """Return the messages with the answer and a result for each of its calls."""
    calls = list_calls(message)
    assert len(calls) == len(results)
    blocks: list[Json] = [
        {"type": "tool_result", "tool_use_id": call.id, "content": result}
        for call, result in zip(calls, results, strict=True)
    ]
    return [*messages, to_param(message), {"role": "user", "content": blocks}]
