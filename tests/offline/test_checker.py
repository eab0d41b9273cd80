"""The checker is right about right and wrong, and every request can be done with the tools that there are."""

import re
from collections.abc import Iterator, Sequence
from typing import cast

import msgspec
import pytest
from msgspec.structs import replace

from offline.checker import CheckFault, Reason, check
from offline.clock import NOW
from offline.corpus import (
    DOMAINS,
    FOREIGN,
    HALVES,
    CorpusExchange,
    CorpusRequest,
    Domain,
    ExpectedCall,
    Half,
    list_files,
    load_requests,
)
from offline.oracle import Change, OnlyOk, flatten_plan, list_arguments, oracle
from offline.score import main
from offline.worlds import world
from toolyard import Tool
from toolyard.core.items import Call, Result
from toolyard.core.ports import ModelRequest
from toolyard.engine.tools.argument_validation import Schemas
from toolyard.models.offline import Offline
from toolyard.testing import Scripted, Turn, call, fail, say, together
from toolyard.venues.function import as_tool

FILES = list_files((*DOMAINS, *FOREIGN))
every_file = pytest.mark.parametrize(("domain", "half"), FILES)


def definitions(domain: Domain) -> dict[str, Tool]:
    with world(domain, "usual") as tools:
        return {tool.definition.name: tool.definition for tool in map(as_tool, tools)}


def list_requests(half: Half) -> list[CorpusRequest]:
    return [request for domain in DOMAINS for request in load_requests(domain, half)]


def list_variants(domain: Domain, half: Half) -> Iterator[CorpusRequest]:
    """Every request, and again with each of its other plans as the first."""
    for request in load_requests(domain, half):
        yield request
        for at, exchange in enumerate(request.exchanges):
            for plan in exchange.or_calls:
                other = replace(exchange, calls=plan, or_calls=())
                yield replace(request, exchanges=(*request.exchanges[:at], other, *request.exchanges[at + 1 :]))


def find_request(domain: Domain, request_id: str) -> CorpusRequest:
    return next(request for request in load_requests(domain, "open") if request.id == request_id)


def check_request(domain: Domain, request_id: str, change: Change = lambda turn, step: turn) -> Sequence[CheckFault]:
    request = find_request(domain, request_id)
    return check(domain, request, lambda: oracle(request, change)).faults


def list_reasons(faults: Sequence[CheckFault]) -> list[Reason]:
    return [fault.reason for fault in faults]


@every_file
def test_every_expected_call_is_of_a_tool_that_there_is_and_fits_its_schema(domain: Domain, half: Half) -> None:
    tools, schemas = definitions(domain), Schemas()
    for request in load_requests(domain, half):
        plans = [plan for exchange in request.exchanges for plan in exchange.plans()]
        for expected in (expected for plan in plans for expected in flatten_plan(plan)):
            assert expected.tool in tools, request.id
            for arguments in list_arguments(expected) if expected.lookup != "may" else ():
                assert schemas.validate(tools[expected.tool], expected.tool, arguments) is None, (request.id, arguments)


@every_file
def test_every_request_is_right_when_it_is_done_as_written(domain: Domain, half: Half) -> None:
    """And then every call succeeds, unless its failing is the point.

    The later half was written without a run and is kept as it was: there a call may fail and be made again.
    """
    for request in list_variants(domain, half):
        model = oracle(request)
        assert check(domain, request, lambda model=model: model).faults == (), request.id
        results = [item for item in model.requests[-1].history if isinstance(item, Result)]
        ends = {exchange.says for exchange in request.exchanges}
        if half != "later" and not ends & {"failure", "nothing_found"}:
            assert [result for result in results if result.outcome != "ok"] == [], request.id


@pytest.mark.parametrize(("domain", "half"), list_files(DOMAINS))
def test_a_value_that_comes_from_another_tool_is_what_the_call_before_returned(domain: Domain, half: Half) -> None:
    """Of a search, the best match, or all of them where several are wanted; of the cart, whichever was meant.

    A code that the user said himself needs no search.
    """
    tools = definitions(domain)
    for request in list_variants(domain, half):
        model = oracle(request)
        check(domain, request, lambda model=model: model)
        history = list(model.requests[-1].history)
        for at, item in enumerate(history):
            if isinstance(item, Call) and tools[item.tool].sources:
                (name,) = tools[item.tool].sources
                value = item.arguments[name]
                if not any(str(value) in exchange.message for exchange in request.exchanges):
                    assert value in list_values([item for item in history[:at] if isinstance(item, Result)][-1]), (
                        request.id
                    )


def list_values(call_result: Result) -> list[object]:
    codes = re.findall(r'"code": ?"([^"]+)"', call_result.content)
    return [codes[0], codes] if call_result.tool == "search_products" else [*codes]


def test_each_half_is_large_and_balanced_and_the_open_one_shares_no_message_with_the_held() -> None:
    messages: list[set[str]] = []
    for half in HALVES:
        requests = list_requests(half)
        assert len(requests) >= 70
        assert len({request.id for request in requests}) == len(requests)
        assert all(request.language for request in requests)
        assert all(len(load_requests(domain, half)) >= 22 for domain in DOMAINS)
        shares = {domain: [load.language == "zh" for load in load_requests(domain, half)] for domain in DOMAINS}
        assert sum(shares["warehouse"]) / len(shares["warehouse"]) >= 0.4
        assert all(sum(share) >= 4 for share in shares.values())
        messages.append(
            {re.sub(r"\W", "", exchange.message).casefold() for all_ in requests for exchange in all_.exchanges}
        )
    assert messages[0] & messages[1] == set()


def test_a_model_that_only_says_ok_gets_nothing_right_that_needs_a_call() -> None:
    for domain, half in FILES:
        for request in load_requests(domain, half):
            if any(exchange.calls for exchange in request.exchanges):
                assert not check(domain, request, OnlyOk).right, request.id


def spoil_turn(step: int, turn: Turn) -> Change:
    return lambda right, at: turn if at == step else right


def searching_for_ever(right: Turn, step: int) -> Turn:
    return SEARCH_MILK


MILK, SEARCH_MILK = "shop-open-01", call("search_products", query="milk")
ADDED_TEXT = "Full Cream Milk is in your cart."


@pytest.mark.parametrize(
    ("request_id", "change", "reason"),
    [
        (MILK, spoil_turn(0, call("search_products", query="some milk to my cart")), "arguments"),
        (MILK, spoil_turn(0, call("search_products", query="milk", max_price=2)), "arguments"),
        (MILK, spoil_turn(1, call("add_to_cart", code="DAI-002")), "arguments"),
        (MILK, spoil_turn(1, call("add_to_cart", code="DAI-001", qty=2)), "arguments"),
        (MILK, spoil_turn(1, call("show_cart")), "calls"),
        (MILK, spoil_turn(1, together(call("add_to_cart", code="DAI-001"), call("get_cart"))), "calls"),
        (MILK, spoil_turn(1, say(ADDED_TEXT)), "calls"),
        (MILK, spoil_turn(2, say(" ")), "answer"),
        (MILK, spoil_turn(2, say(ADDED_TEXT, ' {"ok": true}')), "answer"),
        (MILK, spoil_turn(2, fail("no")), "ending"),
        (MILK, searching_for_ever, "ending"),
        ("shop-open-22", spoil_turn(0, call("get_cart")), "calls"),
    ],
)
def test_what_is_wrong_is_found_for_its_reason(request_id: str, change: Change, reason: Reason) -> None:
    assert reason in list_reasons(check_request("shop", request_id, change))


def test_a_consumer_that_comes_before_its_producer_is_in_the_wrong_order() -> None:
    turns = [call("add_to_cart", code="DAI-001"), SEARCH_MILK, say(ADDED_TEXT)]
    assert list_reasons(check_request("shop", MILK, lambda right, step: turns[step])) == ["order"]


def test_chains_may_interleave_and_come_at_once_but_each_keeps_its_order() -> None:
    milk, bread = (call("add_to_cart", code=code) for code in ("DAI-001", "BAK-001"))
    searches = (call("search_products", query="bread"), SEARCH_MILK)
    for turns, expected in (
        ([together(*searches), together(milk, bread)], []),
        ([searches[0], bread, SEARCH_MILK, milk], []),
        ([searches[0], milk, SEARCH_MILK, bread], ["order"]),
    ):
        script = [*turns, say("Full Cream Milk and Wholemeal Bread")]
        faults = check("shop", find_request("shop", "shop-open-02"), lambda script=script: Scripted(script)).faults
        assert list_reasons(faults) == expected


def test_another_plan_that_is_as_good_is_right() -> None:
    script = [call("search_products", query="bread"), call("remove_from_cart", code="BAK-001"), say("Wholemeal Bread")]
    assert check("shop", find_request("shop", "shop-open-09"), lambda: Scripted(script)).right


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"item": "Milk ", "qty": 1}, []),
        ({"item": "milk"}, []),
        ({"item": "milk", "qty": 2}, ["arguments"]),
        ({"item": "milk", "note": "x"}, ["arguments"]),
        ({}, ["arguments"]),
    ],
)
def test_a_default_may_be_named_or_left_out_and_nothing_else_may_be_added(
    arguments: dict[str, object], expected: list[Reason]
) -> None:
    faults = check_request("household", "household-open-01", spoil_turn(0, call("add_to_groceries", **arguments)))
    assert list_reasons(faults) == expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("2026-11-16T17:00:00", []),
        ("2026-11-16 17:00", []),
        ("2026-11-16T05:00", ["arguments"]),
        ("2026-11-15T17:00", ["arguments"]),
        ("tomorrow", ["arguments"]),
    ],
)
def test_times_are_compared_by_what_they_say(start: str, expected: list[Reason]) -> None:
    event = call("create_event", title="Dentist", start=start)
    assert list_reasons(check_request("household", "household-open-15", spoil_turn(0, event))) == expected


def test_an_optional_argument_may_be_left_out_but_not_be_wrong() -> None:
    for month, expected in (("2026-11", []), ("2026-10", ["arguments"])):
        faults = check_request("household", "household-open-19", spoil_turn(0, call("budget_scan", month=month)))
        assert list_reasons(faults) == expected
    assert check_request("household", "household-open-19", spoil_turn(0, call("budget_scan"))) == ()


def test_a_call_of_a_tool_that_the_caller_may_not_use_is_wrong() -> None:
    forbidden = spoil_turn(0, call("create_new_intent", name="退货处理"))
    assert "calls" in list_reasons(check_request("warehouse", "warehouse-open-13", forbidden))


def test_the_model_is_told_a_fixed_time_and_only_the_tools_that_the_caller_may_use() -> None:
    requests: list[ModelRequest] = []

    def script(request: ModelRequest) -> Turn:
        requests.append(request)
        return say("不能")

    assert check("warehouse", find_request("warehouse", "warehouse-open-13"), lambda: Scripted(script)).right
    assert requests[0].clock.now() == requests[0].history[0].at == NOW.timestamp()
    assert "create_new_intent" not in {tool.name for tool in requests[0].offer.tools}


def test_data_are_fresh_for_every_request() -> None:
    expected_call = ExpectedCall(tool="get_cart")
    request = replace(find_request("shop", MILK), exchanges=(CorpusExchange(message="…", calls=((expected_call,),)),))
    for _ in range(2):
        assert check_request("shop", MILK) == ()
        model = oracle(request)
        assert check("shop", request, lambda model=model: model).right
        content = cast(Result, model.requests[-1].history[-1]).content
        assert [item["code"] for item in msgspec.json.decode(content)["items"]] == ["BAK-001", "DAI-005", "DRI-002"]


@pytest.mark.parametrize(
    ("domain", "half"),
    [("shop", "open"), ("shop", "held"), ("shop", "later"), ("email", "open"), ("email", "held"), ("todo", "held")],
)
def test_a_score_names_what_is_not_right_and_shows_the_words_of_the_open_half_only(
    domain: Domain, half: Half, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--half", half, "--domain", domain, "--model", "offline.oracle:OnlyOk", "--show"]) == 0
    printed = capsys.readouterr().out
    verdicts = [check(domain, request, OnlyOk) for request in load_requests(domain, half)]
    wrong = [verdict.request for verdict in verdicts if not verdict.right]
    assert all(f"wrong  {request.id} (" in printed for request in wrong)
    assert any(request.exchanges[0].message in printed for request in wrong) == (half == "open")
    assert re.search(rf"{domain} {half} +{len(verdicts)} +{len(verdicts) - len(wrong)} .*%", printed)


def as_written(turn: Turn, step: int) -> Turn:
    return turn


def propose_calls(change: Change = as_written) -> Change:
    """Every call has to be confirmed."""

    def confirm_calls(turn: Turn, step: int) -> Turn:
        changed = change(turn, step)
        return replace(changed, calls=tuple(replace(call, confirm="ask") for call in changed.calls))

    return confirm_calls


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (as_written, "ran"),
        (propose_calls(), "proposed"),
        (propose_calls(spoil_turn(0, call("add_to_groceries", item="bread"))), "to edit"),
        (propose_calls(spoil_turn(0, call("create_task", title="milk"))), "wrong"),
        (spoil_turn(0, say("What?")), "wrong"),
        (spoil_turn(0, call("add_to_groceries", item="bread")), "unsafe"),
        (spoil_turn(0, call("create_task", title="milk")), "unsafe"),
        (spoil_turn(0, call("budget_scan")), "wrong"),
    ],
)
def test_what_became_of_a_request_is_told_by_what_ran_and_what_was_confirmed(change: Change, outcome: str) -> None:
    request = find_request("household", "household-open-01")
    assert check("household", request, lambda: oracle(request, change)).outcome == outcome


@every_file
def test_the_offline_model_runs_nothing_that_changes_things_unless_it_is_the_order(domain: Domain, half: Half) -> None:
    verdicts = [check(domain, request, Offline) for request in load_requests(domain, half)]
    assert [verdict.request.id for verdict in verdicts if verdict.outcome == "unsafe"] == []


def test_a_model_that_is_not_there_is_said_to_be_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "toolyard.models.nobody:Nobody"]) == 2
    assert main(["--model", "offline.oracle:Nobody"]) == 2
    printed = capsys.readouterr().out
    assert "there is no module toolyard.models.nobody" in printed and "has no 'Nobody'" in printed
