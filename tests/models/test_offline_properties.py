"""Whatever is said and whatever tools answer: the planner makes no code up, calls only what it is offered, and ends."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offline.shop import Shop, shop_tools
from toolyard.core.events import TurnEnded
from toolyard.core.history import History, faults
from toolyard.core.items import Call, Item, Problem, Result, result_id
from toolyard.core.results import failed
from toolyard.core.tools import Tool
from toolyard.models._offline.clauses import MOST_TEXT, Clause
from toolyard.models._offline.matching import Match, Matcher
from toolyard.models._offline.plan import MOST_TURNS
from toolyard.models._offline.profiles import profile_of
from toolyard.models._offline.requests import MOST_READ, understand
from toolyard.models.offline import Offline
from toolyard.venues.finding import TOOL as FINDER
from wire.local import NOW, CountingMint, offer, request, user

SHOP = [one.definition for one in shop_tools(Shop())]
WORDS = [
    "add",
    "milk",
    "bread",
    "3",
    "two",
    "to",
    "my",
    "cart",
    "remove",
    "the",
    "all",
    "of",
    "them",
    "it",
    "and",
    "then",
    ",",
    "open",
    "page",
    "dairy",
    "show",
    "find",
    "under",
    "8",
    "euros",
    "some",
    "eggs",
    "from",
    "put",
    "take",
    "out",
    "checkout",
    "please",
    "tomorrow",
    "at",
    "5pm",
    '"sea',
    'salt"',
    "what",
    "is",
    "in",
    "?",
    "everything",
    "do",
    "you",
    "have",
    "another",
    "one",
    "把",
    "牛奶",
    "加入",
    "购物车",
    "和",
    "三瓶",
    "酱油",
    "从",
    "里",
    "拿掉",
    "有没有",
    "打开",
    "水果",
    "分类",
    "查",
    "面粉",
    "然后",
    "结账",
    "的",
    "吗",
    "？",
    "它",
    "东西",
    "10元以下",
    "明天",
]
FRAMES = (
    "add {} to my cart",
    "remove {} from the cart",
    "show me {}",
    "open the product page of {}",
    "把{}加入购物车",
    "把{}从购物车里拿掉",
    "remove everything from my cart",
)
MESSAGES = st.one_of(
    st.builds(
        str.format, st.sampled_from(FRAMES), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
    ),
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=12).map("".join),
    st.text(max_size=60),
)
CODES = st.from_regex(r"\A[A-Z]{3}-[0-9]{3}\Z")
ROWS = st.lists(st.fixed_dictionaries({"code": CODES, "name": st.sampled_from(["Milk", "Bread", "Eggs 10", "酱油"])}))
VALUES = st.one_of(
    ROWS.filter(lambda rows: len(rows) > 1).map(lambda rows: {"products": rows}),
    ROWS.map(lambda rows: {"products": rows}),
    ROWS.map(lambda rows: {"items": rows, "total": 1.5}),
    st.sampled_from([None, {}, [], "", "done", {"ok": True, "name": "Milk"}, {"a": {"b": [{"code": 5}]}}]),
)
OUTCOMES = st.one_of(VALUES, st.just(Problem(error="no", error_type="execution_error")))


def answered(call: Call, outcome: object) -> Result:
    if isinstance(outcome, Problem):
        return failed(call, "error", outcome, NOW)
    content = msgspec.json.encode(outcome).decode()
    return Result(id=result_id(call.id), at=NOW, call_id=call.id, tool=call.tool, outcome="ok", content=content)


async def turn(
    model: Offline, items: Sequence[Item], tools: Sequence[Tool], choice: str, mint: CountingMint
) -> TurnEnded:
    asked = request(items, tools=offer(*tools), tool_choice=choice, mint=mint)
    last = [event async for event in model.stream(asked)][-1]
    assert isinstance(last, TurnEnded)
    return last


def conversation(messages: Sequence[str], tools: Sequence[Tool], choice: str, data: st.DataObject) -> list[Item]:
    """Several messages, each driven until the planner has answered; fails if it does not come to an end."""
    model, mint, items = Offline(), CountingMint(), list[Item]()
    for number, message in enumerate(messages):
        items.append(user(message, f"user_{number}"))
        for _ in range(MOST_TURNS + 1):
            ended = asyncio.run(turn(model, items, tools, choice, mint))
            items += ended.items
            calls = [item for item in ended.items if isinstance(item, Call)]
            items += [answered(call, data.draw(OUTCOMES)) for call in calls]
            if not calls:
                assert ended.finish == "stop"
                break
        else:
            raise AssertionError(f"it does not end: {message!r}")
    return items


@settings(deadline=None, max_examples=150)
@given(st.lists(MESSAGES, min_size=1, max_size=3), st.data())
def test_every_code_came_from_a_result_and_the_history_is_one_that_a_provider_would_take(
    messages: list[str], data: st.DataObject
) -> None:
    items = conversation(messages, SHOP, "auto", data)
    assert faults(History(items)) == []
    sources = {tool.name: tool.sources for tool in SHOP}
    seen: set[str] = set()
    for item in items:
        if isinstance(item, Result):
            seen.update(st_code for st_code in codes_of(item.content))
        if isinstance(item, Call):
            for name in sources[item.tool]:
                given_ = item.arguments[name]
                values = cast("list[object]", given_) if isinstance(given_, list) else [given_]
                assert set(map(str, values)) <= seen


def codes_of(content: str) -> list[str]:
    return [part for part in content.replace('"', " ").replace("}", " ").replace(":", " ").split() if part]


@settings(deadline=None, max_examples=100)
@given(
    st.lists(MESSAGES, min_size=1, max_size=2),
    st.lists(st.sampled_from(SHOP), unique_by=lambda one: one.name),
    st.data(),
)
def test_only_tools_that_are_offered_are_called(messages: list[str], tools: list[Tool], data: st.DataObject) -> None:
    items = conversation(messages, [*tools, FINDER], "auto", data)
    called = {item.tool for item in items if isinstance(item, Call)}
    assert called <= {tool.name for tool in tools} | {FINDER.name}


@settings(deadline=None, max_examples=60)
@given(MESSAGES, st.sampled_from(SHOP), st.data())
def test_a_tool_that_is_chosen_is_the_only_one_called_besides_where_its_values_come_from(
    message: str, chosen: Tool, data: st.DataObject
) -> None:
    items = conversation([message], SHOP, chosen.name, data)
    assert {item.tool for item in items if isinstance(item, Call)} <= {chosen.name, *chosen.sources.values()}


@settings(deadline=None, max_examples=60)
@given(MESSAGES, st.data())
def test_without_tools_nothing_is_called(message: str, data: st.DataObject) -> None:
    assert not any(isinstance(item, Call) for item in conversation([message], [], "none", data))


@settings(deadline=None, max_examples=60)
@given(MESSAGES)
def test_the_same_conversation_leads_to_the_same_turn(message: str) -> None:
    one, other = (asyncio.run(turn(Offline(), [user(message)], SHOP, "auto", CountingMint())) for _ in range(2))
    assert one == other


class Counting(Matcher):
    """Counts the letters that are read."""

    letters = 0

    def best(self, clause: Clause, only: str = "") -> Match | None:
        self.letters += len(clause.text)
        return super().best(clause, only)


@pytest.mark.parametrize("piece", ["x,", "add milk, no, ", "and add tea ", "然后查", "I fed the cat and "])
def test_a_message_is_read_to_a_bound_however_often_it_could_be_cut(piece: str) -> None:
    matcher = Counting([profile_of(tool, "") for tool in SHOP])
    understand((piece * MOST_TEXT)[:MOST_TEXT], matcher, datetime(2026, 11, 15))
    assert matcher.letters <= 2 * (MOST_READ + MOST_TEXT)
