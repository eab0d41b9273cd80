"""Whole runs over each wire: the loop asks, runs our tools, leaves the provider's alone, and ends with the answer."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from toolyard import Yard
from toolyard.core.conversation.events import CallStarted, RunEnded
from toolyard.core.items import Call, Result
from toolyard.core.ports import Model
from toolyard.models.chat import OpenAIChat
from toolyard.models.gemini import Gemini
from toolyard.models.messages import Anthropic
from toolyard.models.responses import OpenAIResponses
from wire import gemini_bytes, responses_bytes, strict_chat, strict_gemini, strict_messages
from wire.messages_streams import encode_cited_text, encode_search, encode_search_result
from wire.reply_bytes import chunk, piece
from wire.strict import Reply, StrictServer
from wire.strict_chat import StrictChat
from wire.strict_messages import StrictMessages, encode_end, encode_start, encode_tool_use
from wire.strict_responses import strict_responses


async def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


@dataclass(frozen=True)
class ScriptedProvider:
    name: str
    server: StrictServer
    build_model: Callable[[str], Model]


def claude() -> ScriptedProvider:
    first = Reply(
        packets=[
            encode_start(),
            encode_search(0),
            encode_search_result(1, "srvtoolu_1"),
            encode_cited_text(2, "It is so. "),
            encode_tool_use(3, "toolu_1", "add", '{"a":', "1}"),
            encode_end("tool_use"),
        ]
    )
    server = StrictMessages(first, strict_messages.says("Three."))
    return ScriptedProvider("anthropic", server, lambda url: Anthropic(base_url=url, model="claude", api_key="k"))


def gpt() -> ScriptedProvider:
    wire_bytes = responses_bytes
    first = wire_bytes.replies(
        wire_bytes.build_reasoning("Hm."),
        wire_bytes.SEARCH,
        wire_bytes.CITED_TEXT,
        wire_bytes.call("add", '{"a":', '1,"b":null}'),
    )
    model = wire_bytes.MODEL
    return ScriptedProvider(
        "openai",
        strict_responses(first, wire_bytes.says("Three.")),
        lambda url: OpenAIResponses(base_url=url, model=model),
    )


def google() -> ScriptedProvider:
    wire_bytes = gemini_bytes
    first = wire_bytes.replies(
        wire_bytes.build_thought("Hm."),
        wire_bytes.text(wire_bytes.CITED_TEXT),
        wire_bytes.call("add", {"a": 1}, **wire_bytes.SIGNED),
        groundingMetadata=wire_bytes.GROUNDING,
    )
    server = strict_gemini.strict_gemini(first, wire_bytes.says("Three."))
    return ScriptedProvider("gemini", server, lambda url: Gemini(base_url=url, model=strict_gemini.MODEL))


@pytest.mark.proves("002.native-not-intercepted")
@pytest.mark.parametrize("build", [claude, gpt, google])
async def test_a_run_over_every_wire(build: Callable[[], ScriptedProvider]) -> None:
    provider = build()
    async with (
        provider.server.serving() as url,
        Yard(tools=[add], model=provider.build_model(url), system_prompt="You add.") as yard,
    ):
        going = yard.run("add 1 and 2")
        events = [event async for event in going]
        history = await yard.history(going.conversation)
    assert provider.server.refusals == [] and len(provider.server.bodies) == 2
    assert isinstance(events[-1], RunEnded) and events[-1].ending == "done"
    calls = [item for item in history if isinstance(item, Call)]
    assert [(call.tool, call.ran_at) for call in calls] == [("web_search", provider.name), ("add", "")]
    assert [event.call_id for event in events if isinstance(event, CallStarted)] == [calls[1].id]
    results = {item.call_id: item for item in history if isinstance(item, Result)}
    assert results[calls[1].id].content == "3" and results.keys() == {call.id for call in calls}


@pytest.mark.proves("003.call-structure-checked")
@pytest.mark.parametrize(
    ("sent", "outcome"),
    [
        (piece("add", '{"a":1}', index=0, id="call_1"), "ok"),
        (piece("add", '{"a":1}', index=0), "ok"),
        (piece(None, '{"a":1}', index=0, id="call_1"), "unknown_tool"),
        (piece("", '{"a":1}', index=0, id="call_1"), "unknown_tool"),
        (piece("add", None, index=0, id="call_1"), "validation_error"),
        (piece("add", '{"a":', index=0, id="call_1"), "json_parse_error"),
        (piece("add", "[1]", index=0, id="call_1"), "json_parse_error"),
    ],
)
async def test_a_call_without_a_name_or_arguments_does_not_run_and_the_model_is_told_why(
    sent: bytes, outcome: str
) -> None:
    """A missing id is made up for: ours is the one that counts."""
    ran: list[int] = []

    async def add(a: int) -> int:
        """Add."""
        ran.append(a)
        return a

    calls = strict_chat.Reply(packets=[sent, chunk("tool_calls"), b"data: [DONE]\n\n"])
    server = StrictChat(calls, strict_chat.says("So."))
    async with server.serving() as url, Yard(model=OpenAIChat(base_url=url, model="m"), tools=[add]) as yard:
        done = await yard.execute("add")
        history = await yard.history(done.conversation)
    (call,) = [item for item in history if isinstance(item, Call)]
    (result,) = [item for item in history if isinstance(item, Result)]
    assert call.id and result.call_id == call.id and done.text == "So." and server.refusals == []
    assert (result.error.error_type if result.error else result.outcome) == outcome
    assert ran == ([1] if outcome == "ok" else [])
