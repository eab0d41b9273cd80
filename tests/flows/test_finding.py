"""Many tools, a few of them shown: the likely ones and whatever the model finds. The rest can still be called."""

import asyncio
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from core.story import Story
from support import STAFF, TEST_TIMEOUT_S, collect_events, get_problem, get_result, get_results, open_yard, read_entries
from toolyard import Caller, Limits, PolicyRequest, Settings, Tool, ToolLike, Verdict, Yard, tool
from toolyard.core.conversation.events import TurnStarted
from toolyard.core.conversation.settings import SettingsChange
from toolyard.core.items import Call, Result
from toolyard.core.ports import Context, ModelRequest, Offer, ToolHooks, Value
from toolyard.core.settings.limits import Budget
from toolyard.core.tools.web_search_rule import NativeTools, SearchRules
from toolyard.engine.tools.argument_validation import Schemas
from toolyard.engine.tools.offers import Offers
from toolyard.engine.tools.registry import Registry
from toolyard.engine.tools.web_search_plan import SearchPlanner
from toolyard.models.chat import to_wire
from toolyard.policies.ordered import OrderedPolicy
from toolyard.testing import Scripted, Turn, call, say, together
from toolyard.tool_index.find_tools_result import estimate_tool_bytes
from toolyard.venues.client import ClientVenue
from toolyard.venues.function import FunctionVenue
from toolyard.venues.provider import ProviderVenue, build_provider_tool

_THINGS = """
invoice flight hotel garden recipe playlist podcast passport mortgage pension vaccine allergy tractor
harvest trademark patent scooter bicycle sailboat library museum telescope microscope volcano glacier orchestra violin
trumpet sculpture mosaic cathedral lighthouse beehive orchard vineyard bakery brewery tannery foundry
sawmill
"""
THINGS = _THINGS.split()
VERBS = ("create", "list", "get", "update", "delete")


def make_tools(gate: Callable[[str], bool] = lambda _: True) -> list[ToolLike]:
    def make_tool(verb: str, thing: str) -> ToolLike:
        roles = frozenset[str]() if gate(thing) else frozenset({"boss"})

        @tool(name=f"{verb}_{thing}", description=f"{verb} one {thing}", roles=roles)
        def act(name: str, note: str = "") -> str:
            return f"{verb} {thing} {name}"

        return act

    return [make_tool(verb, thing) for thing in THINGS for verb in VERBS]


def list_offered_names(request: ModelRequest) -> list[str]:
    return [tool.name for tool in request.offer.tools]


def offers(model: Scripted) -> list[list[str]]:
    return [list_offered_names(request) for request in model.requests]


def run_in_large_yard(
    turns: Sequence[Turn],
    messages: Sequence[str],
    *,
    tools: Sequence[ToolLike] = (),
    between: Callable[[Yard, int], object] = lambda yard, number: None,
    **options: object,
) -> list[list[str]]:
    """What each turn of one conversation was offered."""
    model = Scripted(turns)

    async def test() -> None:
        async with (
            asyncio.timeout(TEST_TIMEOUT_S),
            Yard(tools=tools or make_tools(), model=model, budget=SMALL) as yard,
        ):
            for number, message in enumerate(messages):
                await collect_events(yard.run(message, conversation="c", **options))  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownArgumentType]
                change = between(yard, number)
                if change is not None:
                    await change  # pyright: ignore[reportGeneralTypeIssues]

    asyncio.run(test())
    return offers(model)


SMALL = Budget(tools=12, schema_bytes=4096)


def call_find_tools(query: str) -> Turn:
    return call("find_tools", query=query)


def test_a_few_tools_are_all_shown_and_nothing_has_to_be_found() -> None:
    (offered_names,) = run_in_large_yard([say("ok")], ["hello"], tools=make_tools()[:10])
    assert offered_names == [f"{verb}_{thing}" for thing in ("invoice", "flight") for verb in VERBS]


def test_of_many_tools_the_likely_ones_are_shown_and_the_one_that_finds_the_others() -> None:
    (offered_names,) = run_in_large_yard([say("ok")], ["Please list the invoices of May"])
    assert offered_names[:2] == ["find_tools", "list_invoice"]
    assert len(offered_names) <= SMALL.tools and "create_sawmill" not in offered_names


async def test_the_first_request_keeps_to_the_budget_in_bytes() -> None:
    def script(request: ModelRequest) -> Turn:
        body = json.loads(to_wire(request))
        assert len(json.dumps(body["tools"], ensure_ascii=False, separators=(",", ":")).encode()) <= 1024
        assert sum(map(estimate_tool_bytes, request.offer.tools)) <= 1024
        return say("ok")

    async with open_yard(script, make_tools(), budget=Budget(tools=40, schema_bytes=1024)) as yard:
        assert await yard.ask("list invoices, flights, hotels, gardens, recipes and playlists") == "ok"


def make_tool_with_long_description(thing: str, description_bytes: int) -> object:
    @tool(name=f"inspect_{thing}", description=f"Inspect one {thing}. {'x' * description_bytes}")
    def inspect(name: str) -> str:
        return name

    return inspect


@pytest.mark.parametrize(
    "tools", [make_tools()[:64], [make_tool_with_long_description(thing, 1200) for thing in THINGS[:28]]]
)
async def test_up_to_64_tools_of_about_ten_thousand_tokens_are_all_shown(tools: Sequence[ToolLike]) -> None:
    def script(request: ModelRequest) -> Turn:
        assert len(request.offer.tools) == len(tools)
        return say("ok")

    async with open_yard(script, tools) as yard:
        assert await yard.ask("hello") == "ok"


@pytest.mark.parametrize("greeting", ["hello", "What can you do?", "你好", "42", ""])
def test_a_greeting_never_meets_an_empty_list(greeting: str) -> None:
    (offered_names,) = run_in_large_yard([say("ok")], [greeting])
    assert offered_names[0] == "find_tools" and 1 < len(offered_names) <= SMALL.tools


def test_what_a_greeting_is_shown_is_taken_from_every_server_and_keeps_to_the_budget() -> None:
    registry = Registry(OrderedPolicy(), ClientVenue(), Schemas)
    registry.add(FunctionVenue(make_tools()))
    others = [Tool(name=f"other__{name}", description="x" * 3000, server="other") for name in ("first", "second")]
    registry.add(ListedVenue(others))
    state = Story().open().begin("run").state
    offer = Offers(registry, OrderedPolicy(), SMALL).build(state)
    offered_names = [offered.name for offered in offer.tools]
    assert {"create_invoice", "other__first"} <= set(offered_names) and "other__second" not in offered_names
    assert sum(map(estimate_tool_bytes, offer.tools)) <= SMALL.schema_bytes


class ListedVenue:
    """A venue with the given tools, which nobody calls here."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def hooks(self, tool: str) -> ToolHooks:
        return ToolHooks()

    async def run(self, call: Call, tool: Tool, context: Context) -> Value:
        raise AssertionError(call)

    async def close(self) -> None:
        return None


def test_what_is_found_can_be_called_from_the_next_turn_on() -> None:
    turns = [call_find_tools("delete a beehive"), call("delete_beehive", name="north"), say("gone")]
    before, after, last = run_in_large_yard(turns, ["hello there"])
    assert before[0] == "find_tools" and "delete_beehive" not in before
    assert after[: len(before)] == before and "delete_beehive" in after
    assert last == after


async def test_a_find_tells_names_and_schemas() -> None:
    async with open_yard([call_find_tools("create a new violin"), say("ok")], make_tools()) as yard:
        answer = json.loads(get_result(await collect_events(yard.run("hello"))).content)
        first = answer["tools"][0]
        assert first["name"] == "create_violin" and set(first["parameters"]["properties"]) == {"name", "note"}
        assert len(answer["tools"]) <= 5 and "next turn" in answer["note"]


async def test_a_find_that_finds_nothing_says_what_to_try() -> None:
    async with open_yard([call_find_tools("qwertz"), say("ok")], make_tools()) as yard:
        answer = json.loads(get_result(await collect_events(yard.run("hello"))).content)
        assert answer["tools"] == [] and "other" in answer["note"].lower()


@pytest.mark.parametrize("arguments", [{}, {"query": ""}, {"query": 7}, {"query": "x", "y": 1}, {"query": "x" * 1001}])
async def test_a_find_with_wrong_arguments_is_told_so(arguments: dict[str, object]) -> None:
    async with open_yard([call("find_tools", **arguments), say("ok")], make_tools()) as yard:
        assert get_problem(get_result(await collect_events(yard.run("hello")))) == ("error", "validation_error")


def test_the_tools_shown_only_grow_and_keep_their_order() -> None:
    turns = [
        say("1"),
        call_find_tools("create a violin"),
        call_find_tools("tractor"),
        say("2"),
        say("3"),
        call_find_tools("library"),
        say("4"),
        say("5"),
    ]
    offered_names = run_in_large_yard(
        turns, ["list invoices", "hm", "update my passport", "and a museum?", "list invoices"]
    )
    for earlier, later in pairwise(offered_names):
        assert later[: len(earlier)] == earlier
    assert {"list_invoice", "create_violin", "get_tractor", "update_passport", "get_library"} <= set(offered_names[-1])


async def test_an_offer_of_the_same_tools_is_the_same_object() -> None:
    """So that a turn costs nothing for tools that were encoded before."""
    model = Scripted(
        [call_find_tools("violin"), call("get_violin", name="x"), call("get_violin", name="y"), say("ok"), say("ok")]
    )
    async with Yard(tools=make_tools(), model=model) as yard:
        await yard.ask("hello", conversation="c")
        await yard.ask("thank you", conversation="c")
    turn_offers: list[Offer] = [request.offer for request in model.requests]
    assert turn_offers[0] is not turn_offers[1]
    assert turn_offers[1] is turn_offers[2] is turn_offers[3] is turn_offers[4]


async def test_what_was_shown_is_shown_again_after_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/yard.db"

    async def ask_once(message: str, *turns: Turn) -> list[list[str]]:
        model = Scripted(turns)
        async with Yard(tools=make_tools(), model=model, store=store) as yard:
            await yard.ask(message, conversation="c")
        return offers(model)

    first = await ask_once("list invoices", call_find_tools("violin"), say("ok"))
    (again,) = await ask_once("thanks", say("ok"))
    assert again == first[-1] and "create_violin" in again


async def test_the_log_says_what_was_added_and_removed() -> None:
    async with open_yard([call_find_tools("create a violin"), say("ok")], make_tools()) as yard:
        await yard.ask("hello", conversation="c")
        log = [entry.event for entry in await read_entries(yard, "c")]
        first, second = [event for event in log if isinstance(event, TurnStarted)]
        assert "find_tools" in first.added and "create_violin" not in first.added
        assert "create_violin" in second.added and "find_tools" not in second.added
        assert second.offered == first.offered + len(second.added)


def test_a_tool_that_is_disabled_leaves_at_once_and_the_others_keep_their_order() -> None:
    everything = frozenset(f"{verb}_{thing}" for thing in THINGS for verb in VERBS)

    async def without(yard: Yard, number: int) -> None:
        if number == 0:
            await yard.change("c", SettingsChange(tools=everything - {"list_invoice"}))

    before, after, after_find = run_in_large_yard(
        [say("1"), call_find_tools("list invoices"), say("2")], ["list invoices", "again"], between=without
    )
    assert "list_invoice" in before
    assert after == [name for name in before if name != "list_invoice"]
    assert "list_invoice" not in after_find


async def test_what_a_caller_may_not_use_is_neither_shown_nor_found_nor_run() -> None:
    model = Scripted([call_find_tools("list invoices"), call("list_invoice", name="May"), say("ok"), say("ok")])
    async with Yard(tools=make_tools(lambda thing: thing != "invoice"), model=model) as yard:
        find_result, refused = get_results(await collect_events(yard.run("list the invoices", caller=STAFF)))
        assert "invoice" not in find_result.content
        assert get_problem(refused) == ("denied", "permission_denied")
        await collect_events(yard.run("list the invoices", caller=Caller(user="b", roles=frozenset({"boss"}))))
    offered_names = offers(model)
    assert not any("invoice" in name for names in offered_names[:3] for name in names)
    assert "list_invoice" in offered_names[3]


async def test_a_rule_of_the_users_own_is_asked_of_what_is_found_too() -> None:
    def no_violins(question: PolicyRequest) -> Verdict | None:
        return Verdict("deny", "no violins") if "violin" in question.tool.name else None

    async with open_yard([call_find_tools("violin trumpet"), say("ok")], make_tools(), rules=[no_violins]) as yard:
        assert "violin" not in get_result(await collect_events(yard.run("a violin"))).content


async def test_a_real_tool_that_was_not_shown_is_run_and_its_arguments_are_checked() -> None:

    turns = [together(call("get_glacier", name="A"), call("get_glacier", name=[1])), say("ok")]
    async with open_yard(turns, make_tools()) as yard:
        bad, good = sorted(get_results(await collect_events(yard.run("hello"))), key=lambda result: result.outcome)
        assert (good.outcome, good.content) == ("ok", "get glacier A")
        assert get_problem(bad) == ("error", "validation_error")


async def test_a_tool_that_is_not_there_is_still_unknown() -> None:
    async with open_yard([call("get_unicorn", name="A"), say("ok")], make_tools()) as yard:
        assert get_problem(get_result(await collect_events(yard.run("hello")))) == ("error", "unknown_tool")


def test_a_tool_that_the_request_insists_on_is_shown() -> None:
    (offered_names,) = run_in_large_yard([say("ok")], ["hello"], tool_choice="get_glacier")
    assert offered_names == ["get_glacier", "find_tools"]


def test_the_applications_own_tools_are_always_shown_whole() -> None:
    app_tools = [Tool(name=f"screen_{number}", description="of the app", venue="client") for number in range(60)]
    (offered_names,) = run_in_large_yard([say("ok")], ["list the invoices"], app_tools=app_tools)
    assert [name for name in offered_names if name.startswith("screen_")] == [tool.name for tool in app_tools]
    assert {"find_tools", "list_invoice"} <= set(offered_names)


def test_a_tool_that_the_provider_runs_is_always_shown() -> None:
    searching = SearchPlanner(SearchRules(prefer="native"), lambda _: NativeTools(tools=frozenset({"web_search"})))
    registry = Registry(OrderedPolicy(), ClientVenue(), Schemas, search_planner=searching)
    registry.add(FunctionVenue(make_tools()))
    registry.add(ProviderVenue([build_provider_tool("web_search")]))
    offer = Offers(registry, OrderedPolicy()).build(Story().open().begin("run").state)
    assert [shown.name for shown in offer.tools][:1] == ["web_search"] and len(offer.tools) < len(make_tools())


def test_a_tool_comes_with_those_that_its_values_come_from() -> None:
    @tool(name="melt_glacier", sources={"name": "get_volcano"})
    def melt(name: str) -> str:
        """Melt it."""
        return name

    (offered_names,) = run_in_large_yard([say("ok")], ["melt the glacier"], tools=[*make_tools(), melt])
    assert offered_names.index("get_volcano") < offered_names.index("melt_glacier")


async def test_what_a_conversation_finds_has_a_ceiling_and_beyond_it_can_still_be_called() -> None:
    budget = Budget(tools=1, schema_bytes=100_000)
    finds = [call_find_tools(f"create {thing}") for thing in THINGS[:20]]
    model = Scripted([*finds, call("create_sawmill", name="x"), say("ok")])
    async with Yard(tools=make_tools(), model=model, budget=budget, limits=Limits(turns_per_request=50)) as yard:
        last: Result = get_results(await collect_events(yard.run("hello")))[-1]
        assert last.outcome == "ok"
    assert len(offers(model)[-1]) == 16


async def test_a_conversation_may_choose_its_tools_among_many() -> None:

    def script(request: ModelRequest) -> Turn:
        assert list_offered_names(request) == ["get_violin", "get_trumpet"]
        return say("ok")

    async with open_yard(script, make_tools()) as yard:
        chosen = Settings(tools=frozenset({"get_violin", "get_trumpet"}))
        assert await yard.ask("hello", settings=chosen) == "ok"


def test_requests_in_chinese_find_tools_that_are_told_of_in_chinese() -> None:
    @tool(name="search_materials", description="搜索原料信息")
    def materials(keyword: str) -> str:
        return keyword

    (offered_names,) = run_in_large_yard([say("ok")], ["帮我查找面粉原料"], tools=[*make_tools(), materials])
    assert offered_names[:2] == ["find_tools", "search_materials"]
