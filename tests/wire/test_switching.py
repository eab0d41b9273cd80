"""A conversation that changes its provider every turn: whatever one said, did and sealed, every other one takes it."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from toolyard.core.events import TurnEnded
from toolyard.core.history import History
from toolyard.core.items import Call, Item, Outcome, Result
from toolyard.core.options import Options
from toolyard.core.ports import Model
from toolyard.models.chat import OpenAIChat
from toolyard.models.gemini import Gemini
from toolyard.models.messages import Anthropic
from toolyard.models.responses import OpenAIResponses
from wire import gemini_bytes, responses_bytes, strict_chat, strict_dashscope, strict_gemini, strict_messages
from wire.checks import ended
from wire.everything import ADD, PLAIN_SEARCH
from wire.local import NOW, CountingClock, events_of, offer, opened, request, user
from wire.strict import Strict
from wire.strict_chat import StrictChat
from wire.strict_messages import StrictMessages
from wire.strict_responses import strict_responses

TURNS = 30
OUTCOMES: Sequence[Outcome] = ("ok", "error", "denied", "expired", "timeout", "cancelled", "unknown")
Server = Strict


@dataclass(frozen=True)
class Side:
    server: Server
    made: Callable[[str], Model]


def responses_turn(number: int) -> strict_dashscope.Reply:
    own = responses_bytes
    return own.replies(
        own.thought("Hm.", id=f"rs_{number}a"),
        own.hosted("web_search_call", f"ws_{number}", action={"type": "search", "query": "milk"}),
        own.thought(id=f"rs_{number}b"),
        own.text("White.", phase="commentary"),
        own.call("add", '{"a":1}', number=0),
        own.call("no such/tool", "{", number=1, status="incomplete"),
        ends="incomplete",
        reason="max_output_tokens",
    )


def gemini_turn() -> strict_dashscope.Reply:
    own = gemini_bytes
    return own.replies(
        own.thought("Hm."),
        own.TOOL_CALL,
        own.TOOL_RESPONSE,
        own.text("White.", **own.SIGNED),
        own.call("add", {"a": 1}, **own.SIGNED),
        own.call("no such/tool"),
        groundingMetadata=own.GROUNDING,
    )


def sides(count: int) -> list[Side]:
    odd = (("add", {"a": 1}), ("no such/tool", "{"))
    chat = StrictChat(*[strict_chat.asks(*odd, text="I add.")] * count)
    qwen = strict_dashscope.strict_dashscope(*[strict_dashscope.asks(("add", ['{"a":', "1}"]))] * count)
    claude = StrictMessages(*[strict_messages.asks(("add", {"a": 1}), text="I add.", thinking="Hm.")] * count)
    gpt = strict_responses(*map(responses_turn, range(count)))
    gemini = strict_gemini.strict_gemini(*[gemini_turn()] * count)
    return [
        Side(chat, lambda url: OpenAIChat(base_url=url, model="gpt-4o")),
        Side(gpt, lambda url: OpenAIResponses(base_url=url, model=responses_bytes.MODEL)),
        Side(claude, lambda url: Anthropic(base_url=url, model="claude", api_key="k", options=Options(thinking=2_000))),
        Side(gemini, lambda url: Gemini(base_url=url, model=strict_gemini.MODEL)),
        Side(qwen, lambda url: OpenAIChat(base_url=url, model="qwen-plus", provider="dashscope")),
    ]


def answers(turn: TurnEnded, number: int) -> list[Item]:
    """A result of every kind; now and then one is missing, as after a crash in the middle of an import."""
    calls = [item for item in turn.items if isinstance(item, Call) and not item.ran_at]
    return [
        Result(
            id=f"{call.id}.result",
            at=NOW,
            call_id=call.id,
            tool=call.tool,
            outcome=OUTCOMES[(number + place) % len(OUTCOMES)],
            content="3",
        )
        for place, call in enumerate(calls)
        if (number + place) % 7
    ]


async def test_thirty_turns_over_five_providers_are_taken_by_all_of_them() -> None:
    mint, memo, tools = CountingClock(), dict[str, object](), offer(ADD, PLAIN_SEARCH)
    field = sides(TURNS)
    history = History()
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(side.server.serving()) for side in field]
        models = [
            await stack.enter_async_context(opened(side.made(url))) for side, url in zip(field, urls, strict=True)
        ]
        for number in range(TURNS):
            if number % 2 == 0:
                history = history.plus([user(f"question {number}", f"u{number}")])
            asked = request(history, system="You help.", tools=tools, memo=memo, clock=mint)
            turn = ended(await events_of(models[number % len(models)], asked))
            history = history.plus(turn.items).plus(answers(turn, number))
    assert [side.server.refusals for side in field] == [[]] * len(field)
    assert sum(len(side.server.bodies) for side in field) == TURNS
    assert len(history) > 4 * TURNS
