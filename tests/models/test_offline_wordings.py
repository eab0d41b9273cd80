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
    """The planner, and the names of what it called."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []

    def step(self, request: ModelRequest) -> Step:
        step = super().step(request)
        self.called += [one.tool for one in step.calls]
        return step
