"""Prices of models: a worked example for each wire against its provider's published prices, and the rules of the list.

The amounts in comments are those of the providers' price pages, per million tokens and per thousand searches.
"""

import json
from collections.abc import Callable, Iterable

import pytest

from toolyard.core.conversation.events import TurnEnded
from toolyard.core.items import Usage
from toolyard.core.ports import ModelRequest
from toolyard.core.settings.prices import Price, PriceTier, Quote, compute_bound, compute_cost
from toolyard.models import chat, gemini, messages, responses
from toolyard.models.http.request import ModelEvent
from toolyard.models.price_list import PriceList
from wire.checks import expect_ended
from wire.local import request

NOW = 1_790_000_000.0
FromWire = Callable[[Iterable[bytes], ModelRequest], list[ModelEvent]]
TEXT = {"type": "text", "text": "Milk is white."}


def read_turn(from_wire: FromWire, body: object) -> TurnEnded:
    return expect_ended(from_wire([json.dumps(body).encode()], request()))


CHAT = {
    "model": "gpt-4o-mini-2024-07-18",
    "choices": [{"index": 0, "message": {"content": "Milk is white."}, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 10_000,
        "completion_tokens": 2_000,
        "prompt_tokens_details": {"cached_tokens": 4_000},
        "completion_tokens_details": {"reasoning_tokens": 0},
    },
}
RESPONSES = {
    "object": "response",
    "status": "completed",
    "model": "gpt-5-2025-08-07",
    "output": [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "milk"}},
        {"type": "web_search_call", "id": "ws_2", "status": "completed", "action": {"type": "open_page", "url": "u"}},
        {"type": "web_search_call", "id": "ws_3", "status": "completed", "action": {"type": "search", "query": "cow"}},
        {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Milk is white."}]},
    ],
    "usage": {
        "input_tokens": 20_000,
        "output_tokens": 1_000,
        "input_tokens_details": {"cached_tokens": 8_000},
        "output_tokens_details": {"reasoning_tokens": 600},
    },
}
MESSAGES = {
    "type": "message",
    "model": "claude-sonnet-4-5-20250929",
    "content": [TEXT],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 100,
        "output_tokens": 2_000,
        "cache_read_input_tokens": 50_000,
        "cache_creation_input_tokens": 10_000,
        "cache_creation": {"ephemeral_5m_input_tokens": 6_000, "ephemeral_1h_input_tokens": 4_000},
        "server_tool_use": {"web_search_requests": 1},
    },
}


def build_gemini(prompt: int, model: str = "gemini-2.5-pro", queries: tuple[str, ...] = ("milk", "cow")) -> object:
    grounding = {"webSearchQueries": list(queries), "groundingChunks": [{"web": {"uri": "https://a.example"}}]}
    return {
        "modelVersion": model,
        "candidates": [
            {
                "content": {"parts": [{"text": "Milk is white."}]},
                "finishReason": "STOP",
                **({"groundingMetadata": grounding} if queries else {}),
            }
        ],
        "usageMetadata": {
            "promptTokenCount": prompt,
            "toolUsePromptTokenCount": 500,
            "candidatesTokenCount": 1_000,
            "thoughtsTokenCount": 500,
            "cachedContentTokenCount": 2_000,
        },
    }


WORKED_EXAMPLES = [
    # 6,000 x 0.15 + 4,000 x 0.075 cached + 2,000 x 0.60
    pytest.param("openai:gpt-4o-mini", chat.from_wire, CHAT, 900 + 300 + 1_200, id="chat"),
    # 12,000 x 1.25 + 8,000 x 0.125 cached + 1,000 x 10, and two searches at 10: opening a page is none
    pytest.param("openai:gpt-5", responses.from_wire, RESPONSES, 15_000 + 1_000 + 10_000 + 20_000, id="responses"),
    # 100 x 3 + 50,000 x 0.30 read + 6,000 x 3.75 and 4,000 x 6 written + 2,000 x 15, and one search at 10
    pytest.param(
        "anthropic:claude-sonnet-4-5",
        messages.from_wire,
        MESSAGES,
        300 + 15_000 + 22_500 + 24_000 + 30_000 + 10_000,
        id="messages",
    ),
    # 8,500 x 1.25 + 2,000 x 0.125 cached + 1,500 x 10, and one request with searches at 35
    pytest.param(
        "gemini:gemini-2.5-pro", gemini.from_wire, build_gemini(10_000), 10_625 + 250 + 15_000 + 35_000, id="gemini"
    ),
    # Above 200,000 tokens all of them cost more: 298,500 x 2.50 + 2,000 x 0.25 + 1,500 x 15
    pytest.param(
        "gemini:gemini-2.5-pro",
        gemini.from_wire,
        build_gemini(300_000, queries=()),
        746_250 + 500 + 22_500,
        id="gemini, long",
    ),
    # 8,500 x 2 + 2,000 x 0.20 + 1,500 x 12, and each of two queries at 14
    pytest.param(
        "gemini:gemini-3-pro-preview",
        gemini.from_wire,
        build_gemini(10_000, model="gemini-3-pro-preview"),
        17_000 + 400 + 18_000 + 28_000,
        id="gemini, by query",
    ),
]


@pytest.mark.parametrize(("model", "from_wire", "body", "micros"), WORKED_EXAMPLES)
async def test_a_turn_costs_what_the_providers_price_page_says(
    model: str, from_wire: FromWire, body: object, micros: int
) -> None:
    turn = read_turn(from_wire, body)
    quote = await PriceList({}, published=True).find(model, turn.model, NOW)
    assert quote is not None
    cost = compute_cost(turn.usage, quote)
    assert (cost.micros, cost.currency, cost.unpriced_tools) == (micros, "USD", ())
    assert cost.price.startswith("genai-prices ")


async def test_a_model_of_this_machine_costs_nothing_and_an_unknown_one_has_no_price() -> None:
    prices = PriceList({}, published=True)
    for name in ("toolyard:offline", "local:/models/small.gguf"):
        quote = await prices.find(name, "", NOW)
        assert quote is not None
        assert compute_cost(Usage(input_tokens=10, output_tokens=5), quote).micros == 0
    for name in ("openai:no-such-model", "http://127.0.0.1:9/v1#llama", "nobody:gpt-4o", "given"):
        assert await prices.find(name, "", NOW) is None


async def test_configured_prices_come_first_and_the_published_ones_only_where_they_are_wanted() -> None:
    own = Price(input=1.0, output=2.0, currency="EUR")
    prices = PriceList({"openai:gpt-4o-mini": own, "reported-1": own})
    for name, reported in (("openai:gpt-4o-mini", "gpt-4o-mini-2024-07-18"), ("http://h/v1#m", "reported-1")):
        quote = await prices.find(name, reported, NOW)
        assert quote is not None and quote.price == own and quote.version.startswith("config:")
        assert prices.get(name, reported, NOW) == quote
    assert await prices.find("openai:gpt-5", "", NOW) is None
    assert prices.get("openai:never-asked", "", NOW) is None


async def test_the_version_of_a_configured_price_changes_with_it() -> None:
    quotes = [await PriceList({"m": Price(input=1.0, output=output)}).find("m", "", NOW) for output in (2.0, 2.0, 3.0)]
    first, same, other = (quote.version for quote in quotes if quote)
    assert first == same != other


def test_a_cost_is_rounded_once_and_never_lost_in_fractions() -> None:
    quote = Quote(price=Price(input=0.075, output=0.3, tools={"web_search": 0.5}), version="v")
    assert compute_cost(Usage(input_tokens=6), quote).micros == 0
    assert compute_cost(Usage(input_tokens=7), quote).micros == 1
    assert compute_cost(Usage(input_tokens=10_000_000, output_tokens=1), quote).micros == 750_000
    assert compute_bound(quote.price, 7, 1, {"web_search": 3}) == 1 + 1_500


def test_uses_of_a_tool_without_a_price_are_named_not_taken_for_free() -> None:
    quote = Quote(price=Price(input=1.0, output=1.0), version="v")
    cost = compute_cost(Usage(input_tokens=5, tool_uses={"code_execution": 2}), quote)
    assert (cost.micros, cost.unpriced_tools) == (5, ("code_execution",))


def test_a_long_request_costs_its_tier_and_cached_input_what_other_input_does_without_a_price() -> None:
    price = Price(input=1.0, output=2.0, tiers=(PriceTier(above=100, input=10.0, output=20.0, cache_write=30.0),))
    quote = Quote(price=price, version="v")
    assert compute_cost(Usage(input_tokens=100, cached_tokens=50, output_tokens=1), quote).micros == 102
    assert compute_cost(Usage(input_tokens=101, cache_writes_5m=1, output_tokens=1), quote).micros == 1_050
    assert compute_bound(price, 101, 1, {}) == 101 * 30 + 20


def test_the_bound_of_a_request_that_may_cache_for_an_hour_has_the_price_of_that() -> None:
    price = Price(input=1.0, output=2.0, cache_write=1.25, cache_write_1h=2.0)
    usage, quote = Usage(input_tokens=100, cache_writes_1h=100, output_tokens=10), Quote(price=price, version="v")
    assert compute_bound(price, 100, 10, {}, caches_for_an_hour=True) == compute_cost(usage, quote).micros == 220
    assert compute_bound(price, 100, 10, {}) == 145


def test_the_tokens_of_a_run_are_added_up_kind_by_kind() -> None:
    first = Usage(input_tokens=5, cache_writes_5m=2, cache_writes_1h=1, tool_uses={"web_search": 1})
    second = Usage(input_tokens=1, cache_writes_1h=1, tool_uses={"web_search": 2, "file_search": 1})
    assert first.plus(second) == Usage(
        input_tokens=6, cache_writes_5m=2, cache_writes_1h=2, tool_uses={"web_search": 3, "file_search": 1}
    )
    assert first.plus(Usage()).tool_uses == {"web_search": 1}
