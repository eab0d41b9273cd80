"""What a provider has cached of a request stays good for the next one: over a long run, on every wire, the system text,
the tools and the messages before are byte for byte those of the request before, whatever MCP servers do meanwhile."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from support import collect_events, get_ending, wait_until
from toolyard import Yard
from toolyard.core.ports import Model
from toolyard.core.settings.models.options import Options
from toolyard.models.chat import OpenAIChat
from toolyard.models.fallback import ConfiguredModel
from toolyard.models.gemini import Gemini
from toolyard.models.messages import Anthropic
from toolyard.models.responses import OpenAIResponses
from venues.mcp.plain import PlainServer
from wire import gemini_bytes, responses_bytes, strict_chat, strict_dashscope, strict_gemini, strict_messages
from wire.strict import StrictServer
from wire.strict_chat import StrictChat
from wire.strict_messages import StrictMessages
from wire.strict_responses import strict_responses

RUNS = 16
MARK = b',"cache_control":{"type":"ephemeral"}'
Body = dict[str, msgspec.Raw]


@dataclass(frozen=True)
class CachingProvider:
    """A provider that asks for `add` and then answers, run after run; where its requests have their messages."""

    server: StrictServer
    build_model: Callable[[str], Model]
    messages: str


def chat() -> CachingProvider:
    replies = [strict_chat.asks(("add", {}), ("look", {}), text="I add."), strict_chat.says("Done.")] * RUNS
    return CachingProvider(StrictChat(*replies), lambda url: OpenAIChat(base_url=url, model="gpt-4o"), "messages")


def qwen() -> CachingProvider:
    replies = [strict_dashscope.asks(("add", ["{", "}"])), strict_dashscope.says("Done.")] * RUNS
    server = strict_dashscope.strict_dashscope(*replies)
    return CachingProvider(
        server, lambda url: OpenAIChat(base_url=url, model="qwen-plus", provider="dashscope"), "messages"
    )


def gpt() -> CachingProvider:
    wire_bytes = responses_bytes
    replies = [
        reply
        for number in range(RUNS)
        for reply in (
            wire_bytes.replies(wire_bytes.build_reasoning("Hm.", id=f"rs_{number}"), wire_bytes.call("add", "{}")),
            wire_bytes.says("Done."),
        )
    ]
    server = strict_responses(*replies)
    return CachingProvider(server, lambda url: OpenAIResponses(base_url=url, model=wire_bytes.MODEL), "input")


def claude() -> CachingProvider:
    replies = [strict_messages.asks(("add", {}), ("look", {}), thinking="Hm."), strict_messages.says("Done.")] * RUNS
    return CachingProvider(
        StrictMessages(*replies),
        lambda url: ConfiguredModel(Anthropic(base_url=url, model="claude", api_key="k"), Options(thinking=2_000)),
        "messages",
    )


def google() -> CachingProvider:
    wire_bytes = gemini_bytes
    replies = [
        wire_bytes.replies(wire_bytes.build_thought("Hm."), wire_bytes.call("add", {}, **wire_bytes.SIGNED)),
        wire_bytes.says("Done."),
    ] * RUNS
    server = strict_gemini.strict_gemini(*replies)
    return CachingProvider(server, lambda url: Gemini(base_url=url, model=strict_gemini.MODEL), "contents")


async def run_all(provider: CachingProvider, plain: PlainServer) -> list[bytes]:
    """The bodies of all requests; the server of the tools dies after every third run."""
    async with (
        provider.server.serving() as url,
        Yard(model=provider.build_model(url), system_prompt="You add.", servers={"plain": plain.spec}) as yard,
    ):
        for number in range(RUNS):
            events = await collect_events(yard.run(f"Question {number}", conversation="c"))
            assert get_ending(events).ending == "done", events
            if number % 3 == 2:
                plain.kill()
                await wait_until(lambda: not plain.alive)
            if number % 6 == 5:
                await wait_until(lambda: bool(plain.alive) and yard.servers.cards()[0].status == "running")
    assert provider.server.refusals == []
    return provider.server.bodies


def split_body(provider: CachingProvider, body: bytes) -> tuple[Body, list[msgspec.Raw]]:
    """A request without the marks of what to cache: its messages one by one, and all else."""
    fields = msgspec.json.decode(body.replace(MARK, b""), type=Body)
    return fields, msgspec.json.decode(fields.pop(provider.messages), type=list[msgspec.Raw])


@pytest.mark.parametrize("build", [chat, qwen, gpt, claude, google])
async def test_a_request_is_the_one_before_and_what_came_since_although_servers_come_and_go(
    build: Callable[[], CachingProvider], tmp_path: Path
) -> None:
    provider, plain = build(), PlainServer(tmp_path, trust=True)
    bodies = await asyncio.wait_for(run_all(provider, plain), 60)
    assert len(bodies) == 2 * RUNS >= 30 and len(plain.processes) > 4
    for before, now in pairwise(split_body(provider, body) for body in bodies):
        assert "tools" in now[0] and now[0] == before[0]
        assert len(now[1]) > len(before[1]) and now[1][: len(before[1])] == before[1]


async def test_what_is_to_be_cached_is_marked_where_the_provider_looks_for_it(tmp_path: Path) -> None:
    """The system text, the last tool, the newest message, and the one that was the newest before."""
    bodies = await asyncio.wait_for(run_all(claude(), PlainServer(tmp_path, trust=True)), 60)
    ends: list[int] = []
    for number, body in enumerate(bodies):
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        assert bytes(fields["system"]).endswith(MARK + b"}]") and bytes(fields["tools"]).endswith(MARK + b"}]")
        messages = msgspec.json.decode(fields["messages"], type=list[msgspec.Raw])
        marked_indexes = [index for index, message in enumerate(messages) if MARK in bytes(message)]
        assert bytes(messages[-1]).endswith(MARK + b"}]}")
        ends.append(len(messages) - 1)
        assert marked_indexes == ends[-2:], number
