"""Tools of real MCP servers over every wire: their schemas are taken, and a call of one reaches its server."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from real_servers import build_npm_server, build_python_server
from toolyard import Yard
from toolyard.core.conversation.events import RunEnded
from toolyard.core.items import Call, Result
from toolyard.core.ports import Model, ModelRequest, Offer
from toolyard.core.settings.limits import Budget
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.models.chat import OpenAIChat
from toolyard.models.gemini import Gemini
from toolyard.models.messages import Anthropic
from toolyard.models.responses import OpenAIResponses
from toolyard.testing import Scripted, Turn, say
from wire import gemini_bytes, responses_bytes, strict_chat, strict_gemini, strict_messages
from wire.local import request, user
from wire.strict import StrictServer
from wire.strict_chat import StrictChat
from wire.strict_messages import StrictMessages
from wire.strict_responses import strict_responses
from wire.test_hard_schemas import WIRES

ECHO: tuple[str, dict[str, object]] = ("echo", {"message": "hello there"})
ALL = Budget(tools=1_000, schema_bytes=1_000_000)
FIVE_SERVERS = 45
"""Tools that they have, at least."""


def collect_offer(servers: dict[str, ServerSpec]) -> Offer:
    """What a model is offered of these servers."""
    offers: list[Offer] = []

    def script(model_request: ModelRequest) -> Turn:
        offers.append(model_request.offer)
        return say("ok")

    async def run() -> None:
        async with asyncio.timeout(120), Yard(model=Scripted(script), servers=servers, budget=ALL) as yard:
            await yard.ask("what is there?")

    asyncio.run(run())
    return offers[0]


@pytest.mark.proves("002.mcp-tools-converted", "004.schema-converted")
def test_the_schemas_of_five_real_servers_are_taken_by_every_provider(tmp_path: Path) -> None:
    offer = collect_offer(
        {
            "everything": build_npm_server("everything"),
            "files": build_npm_server("filesystem", str(tmp_path)),
            "memory": build_npm_server("memory", env={"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}),
            "time": build_python_server("time"),
            "git": build_python_server("git"),
        }
    )
    assert len(offer.tools) > FIVE_SERVERS
    for to_wire, model, faults_of in WIRES.values():
        body = to_wire(request([user("hi")], tools=offer), model)
        assert faults_of(body) == []
        assert all(f'"{tool.name}"'.encode() in body for tool in offer.tools)


@dataclass(frozen=True)
class EchoProvider:
    server: StrictServer
    build_model: Callable[[str], Model]


def chat() -> EchoProvider:
    server = StrictChat(strict_chat.asks(ECHO), strict_chat.says("It said so."))
    return EchoProvider(server, lambda url: OpenAIChat(base_url=url, model="m"))


def responses() -> EchoProvider:
    server = strict_responses(responses_bytes.asks(ECHO), responses_bytes.says("It said so."))
    return EchoProvider(server, lambda url: OpenAIResponses(base_url=url, model=responses_bytes.MODEL))


def messages() -> EchoProvider:
    server = StrictMessages(strict_messages.asks(ECHO), strict_messages.says("It said so."))
    return EchoProvider(server, lambda url: Anthropic(base_url=url, model="claude", api_key="k"))


def gemini() -> EchoProvider:
    server = strict_gemini.strict_gemini(gemini_bytes.asks(ECHO), gemini_bytes.says("It said so."))
    return EchoProvider(server, lambda url: Gemini(base_url=url, model=strict_gemini.MODEL))


@pytest.mark.proves("002.provider-agnostic", "002.mcp-result-linked")
@pytest.mark.parametrize("build", [chat, responses, messages, gemini])
async def test_a_tool_of_a_real_server_works_with_every_provider(build: Callable[[], EchoProvider]) -> None:
    provider, servers = build(), {"everything": build_npm_server("everything", trust=True)}
    async with (
        asyncio.timeout(120),
        provider.server.serving() as url,
        Yard(model=provider.build_model(url), servers=servers, budget=ALL) as yard,
    ):
        going = yard.run("say hello there")
        events = [event async for event in going]
        history = await yard.history(going.conversation)
    assert provider.server.refusals == [] and len(provider.server.bodies) == 2
    assert isinstance(events[-1], RunEnded) and events[-1].ending == "done"
    (call,) = [item for item in history if isinstance(item, Call)]
    (result,) = [item for item in history if isinstance(item, Result)]
    assert (result.call_id, result.content) == (call.id, "Echo: hello there")
