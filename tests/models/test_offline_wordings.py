"""Many ways of wording requests, in both languages, beside those of `tests/offline`: each leads to the right calls."""

import json
from pathlib import Path
from typing import cast

import pytest

from offline.checker import check
from offline.corpus import DOMAINS, Domain, Exchange, ExpectedCall, Request
from toolyard.core.ports import ModelRequest
from toolyard.models._offline.plan import Step
from toolyard.models.offline import Offline

FILE = Path(__file__).with_name("offline_wordings.tsv")
EVERYBODY = frozenset({"admin"})


def wordings(domain: Domain) -> list[tuple[str, list[ExpectedCall]]]:
    rows = [line.split("\t") for line in FILE.read_text("utf-8").splitlines() if not line.startswith("#")]
    return [
        (message, [expected(one) for one in calls.split("; ") if one])
        for name, message, calls in rows
        if name == domain
    ]


def expected(text: str) -> ExpectedCall:
    tool, _, arguments = text.partition(" ")
    return ExpectedCall(tool=tool, arguments=cast("dict[str, object]", json.loads(arguments)))


@pytest.mark.parametrize("domain", DOMAINS)
def test_each_wording_leads_to_its_calls(domain: Domain) -> None:
    wrong: list[str] = []
    for number, (message, calls) in enumerate(wordings(domain)):
        exchange = Exchange(message=message, calls=tuple((one,) for one in calls))
        request = Request(
            id=f"{domain}-{number}", kind="wording", language="en", exchanges=(exchange,), roles=EVERYBODY
        )
        found = [
            fault for fault in check(domain, request, Offline).faults if fault.reason not in ("answer", "language")
        ]
        wrong += [f"{message}: {fault.said} {fault.detail}" for fault in found]
    assert wrong == []


@pytest.mark.parametrize(
    ("domain", "messages", "last"),
    [
        ("shop", ("show me milk", "add the second one"), {"code": "DAI-002"}),
        ("shop", ("do you have yoghurt?", "I'll take the second one"), {"code": "DAI-007"}),
        ("shop", ("find bread", "add two of the last one to my cart"), {"code": "BAK-002", "qty": 2}),
        ("shop", ("do you have cheese?", "show me the first one"), {"codes": ["DAI-008"]}),
        ("shop", ("有没有酸奶？", "把第二个加入购物车"), {"code": "DAI-007"}),
        ("shop", ("有面包吗", "第一个来两个"), {"code": "BAK-001", "qty": 2}),
        ("shop", ("有蜂蜜吗？", "那就加两瓶"), {"code": "PAN-008", "qty": 2}),
        ("shop", ("do you have milk and eggs?", "add both to my cart"), {"code": "DAI-005"}),
        ("shop", ("add milk to my cart", "and bread"), {"code": "BAK-001"}),
        ("shop", ("add honey", "sorry, I meant peanut butter"), {"code": "PAN-010"}),
        ("household", ("add three onions to the list", "and garlic"), {"item": "garlic"}),
        ("household", ("加牛奶到购物清单", "还有鸡蛋"), {"item": "鸡蛋"}),
        ("household", ("add milk to the groceries", "I bought it"), {"item": "milk", "status": "Bought"}),
    ],
)
def test_what_a_later_message_points_at_is_found(
    domain: Domain, messages: tuple[str, ...], last: dict[str, object]
) -> None:
    model = Called()
    exchanges = tuple(Exchange(message=one) for one in messages)
    check(domain, Request(id="points", kind="wording", language="en", exchanges=exchanges), lambda: model)
    assert model.arguments[-1] == last


def test_a_place_in_a_list_that_is_too_short_is_not_filled_with_something_else() -> None:
    model = Called()
    exchanges = (Exchange(message="find honey"), Exchange(message="add the third one to my cart"))
    check("shop", Request(id="short", kind="wording", language="en", exchanges=exchanges), lambda: model)
    assert model.called == ["search_products", "search_products"]


@pytest.mark.parametrize(
    ("domain", "messages", "calls"),
    [
        ("shop", ("Do you have oat milk?", "add it to my cart"), ["search_products", "search_products", "add_to_cart"]),
        ("shop", ("add to my cart", "3 lemons please"), ["search_products", "add_to_cart"]),
        ("shop", ("open a category", "fruit"), ["navigate_to_category"]),
        ("shop", ("add something to my cart", "never mind"), []),
        ("shop", ("add something to my cart", "show my cart"), ["show_cart"]),
        ("shop", ("do you have honey?", "what about jam?"), ["search_products", "search_products"]),
        ("shop", ("do you have honey?", "great, I'll take two"), ["search_products", "search_products", "add_to_cart"]),
        ("household", ("what did we spend in October?", "and what about September?"), ["budget_scan", "budget_scan"]),
        ("household", ("turn off the light", "kitchen"), ["ha_service_call"]),
        ("household", ("添加日程", "明天下午三点开会"), ["create_event"]),
        ("warehouse", ("查找面粉", "那白砂糖呢？"), ["search_materials", "search_materials"]),
        ("warehouse", ("create a report", "Monthly overview"), ["format_report"]),
        ("household", ("add an event: party", "tomorrow at 3pm"), ["create_event"]),
        ("household", ("create an event", "school fair", "Saturday at 10:00"), ["create_event"]),
        ("warehouse", ("新建意图", "名称叫补货申请"), ["create_new_intent"]),
    ],
)
def test_a_later_message_is_understood_from_the_ones_before(
    domain: Domain, messages: tuple[str, ...], calls: list[str]
) -> None:
    *before, last = messages
    model = Called()
    exchanges = (*(Exchange(message=one) for one in before), Exchange(message=last))
    request = Request(id="later", kind="wording", language="en", exchanges=exchanges, roles=EVERYBODY)
    check(domain, request, lambda: model)
    assert model.called == calls


class Called(Offline):
    """The planner, the names of what it called, and with what."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []
        self.arguments: list[dict[str, object]] = []

    def step(self, request: ModelRequest) -> Step:
        step = super().step(request)
        self.called += [one.tool for one in step.calls]
        self.arguments += [one.arguments for one in step.calls]
        return step
