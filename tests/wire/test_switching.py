"""A conversation that changes its provider every turn: whatever one said, did and sealed, every other one takes it."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from toolyard.core.conversation.events import TurnEnded
from toolyard.core.conversation.history import History
from toolyard.core.items import Call, Item, Outcome, Result
from toolyard.core.ports import Model
from toolyard.core.settings.models.options import Options
from toolyard.models.chat import OpenAIChat
from toolyard.models.fallback import ConfiguredModel
from toolyard.models.gemini import Gemini
from toolyard.models.messages import Anthropic
from toolyard.models.responses import OpenAIResponses
from wire import gemini_bytes, responses_bytes, strict_chat, strict_dashscope, strict_gemini, strict_messages
from wire.checks import expect_ended
from wire.everything import ADD, PLAIN_SEARCH
from wire.local import NOW, CountingClock, events_of, offer, open_model, request, user
from wire.strict import StrictServer
from wire.strict_chat import StrictChat
from wire.strict_messages import StrictMessages
from wire.strict_responses import strict_responses

TURNS = 30
OUTCOMES: Sequence[Outcome] = ("ok", "error", "denied", "expired", "timeout", "cancelled", "unknown")
Server = StrictServer


@dataclass(frozen=True)
class SwitchingProvider:
    server: Server
    build_model: Callable[[str], Model]


def responses_turn(number: int) -> strict_dashscope.Reply:
    wire_bytes = responses_bytes
    return wire_bytes.replies(
        wire_bytes.build_reasoning("Hm.", id=f"rs_{number}a"),
        wire_bytes.build_hosted_call("web_search_call", f"ws_{number}", action={"type": "search", "query": "milk"}),
        wire_bytes.build_reasoning(id=f"rs_{number}b"),
        wire_bytes.text("White.", phase="commentary"),
        wire_bytes.call("add", '{"a":1}', number=0),
        wire_bytes.call("no such/tool", "{", number=1, status="incomplete"),
        ends="incomplete",
        reason="max_output_tokens",
    )


def gemini_turn() -> strict_dashscope.Reply:
    wire_bytes = gemini_bytes
    return wire_bytes.replies(
        wire_bytes.build_thought("Hm."),
        wire_bytes.TOOL_CALL,
        wire_bytes.TOOL_RESPONSE,
        wire_bytes.text("White.", **wire_bytes.SIGNED),
        wire_bytes.call("add", {"a": 1}, **wire_bytes.SIGNED),
        wire_bytes.call("no such/tool"),
        groundingMetadata=wire_bytes.GROUNDING,
    )


def build_providers(count: int) -> list[SwitchingProvider]:
    odd = (("add", {"a": 1}), ("no such/tool", "{"))
    chat = StrictChat(*[strict_chat.asks(*odd, text="I add.")] * count)
    qwen = strict_dashscope.strict_dashscope(*[strict_dashscope.asks(("add", ['{"a":', "1}"]))] * count)
    claude = StrictMessages(*[strict_messages.asks(("add", {"a": 1}), text="I add.", thinking="Hm.")] * count)
    gpt = strict_responses(*map(responses_turn, range(count)))
    gemini = strict_gemini.strict_gemini(*[gemini_turn()] * count)
    return [
        SwitchingProvider(chat, lambda url: OpenAIChat(base_url=url, model="gpt-4o")),
        SwitchingProvider(gpt, lambda url: OpenAIResponses(base_url=url, model=responses_bytes.MODEL)),
        SwitchingProvider(
            claude,
            lambda url: ConfiguredModel(Anthropic(base_url=url, model="claude", api_key="k"), Options(thinking=2_000)),
        ),
        SwitchingProvider(gemini, lambda url: Gemini(base_url=url, model=strict_gemini.MODEL)),
        SwitchingProvider(qwen, lambda url: OpenAIChat(base_url=url, model="qwen-plus", provider="dashscope")),
    ]


def build_results(turn: TurnEnded, number: int) -> list[Item]:
    """A result of every kind; now and then one is missing, as after a crash in the middle of an import."""
    calls = [item for item in turn.items if isinstance(item, Call) and not item.ran_at]
    return [
        Result(
            id=f"{call.id}.result",
            at=NOW,
            call_id=call.id,
            tool=call.tool,
            outcome=OUTCOMES[(number + index) % len(OUTCOMES)],
            content="3",
        )
        for index, call in enumerate(calls)
        if (number + index) % 7
    ]


async def test_thirty_turns_over_five_providers_are_taken_by_all_of_them() -> None:
    clock, memo, tools = CountingClock(), dict[str, object](), offer(ADD, PLAIN_SEARCH)
    providers = build_providers(TURNS)
    history = History()
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(provider.server.serving()) for provider in providers]
        models = [
            await stack.enter_async_context(open_model(side.build_model(url)))
            for side, url in zip(providers, urls, strict=True)
        ]
        for number in range(TURNS):
            if number % 2 == 0:
                history = history.plus([user(f"question {number}", f"u{number}")])
            model_request = request(history, system="You help.", tools=tools, memo=memo, clock=clock)
            turn = expect_ended(await events_of(models[number % len(models)], model_request))
            history = history.plus(turn.items).plus(build_results(turn, number))
    assert [side.server.refusals for side in providers] == [[]] * len(providers)
    assert sum(len(side.server.bodies) for side in providers) == TURNS
    assert len(history) > 4 * TURNS
