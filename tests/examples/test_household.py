"""The household example: seed 003's seven tools over SQLite, on its own configuration."""

import json
from datetime import date
from pathlib import Path

import msgspec
import pytest

from examples.at_home import call_tool, call_value, open_household, rows
from examples.loading import read_configuration, tools_of
from support import collect_events, get_problem, get_results, join_text, open_yard
from surfaces.http_server import connect_client
from toolyard import Result, ToolLike, Yard
from toolyard.core.ports import ModelRequest
from toolyard.testing import Scripted, Turn, call, say, together
from toolyard.venues.function import as_tool
from wire.strict_chat import AssistantMessage, StrictChat, SystemMessage, ToolMessage, UserMessage, asks, says

CONFIGURED = read_configuration("household")
SEVEN = [
    "budget_scan",
    "add_to_groceries",
    "update_grocery_status",
    "create_task",
    "update_task_status",
    "create_event",
    "ha_service_call",
]
LISTS = ["list_groceries", "list_tasks", "list_events"]
THIS_MONTH = date.today().isoformat()[:7]


def seven_tools() -> list[ToolLike]:
    """Return the tools of the seed, without the lists."""
    return [tool for tool in tools_of("household") if as_tool(tool).definition.name in SEVEN]


@pytest.mark.proves("003.result-ok", "003.arguments-defaulted")
async def test_milk_is_added_to_the_groceries_of_a_file_that_is_made_on_first_use(book: Path) -> None:
    assert not book.exists()
    async with open_household() as yard:
        added = await call_value(yard, "add_to_groceries", item="milk")
        assert added == {"ok": True, "id": "grocery-1", "item": "milk", "status": "Needed", "qty": 1}
    assert rows(book, "SELECT name, qty, status FROM entries") == [("milk", 1, "Needed")]


@pytest.mark.proves(
    "003.openai-model",
    "003.all-schemas-sent",
    "003.system-prompt-first",
    "003.calls-from-stream",
    "003.arguments-parsed",
    "003.result-as-string",
    "003.asked-again",
)
async def test_the_seeds_request_goes_to_gpt_4o_mini_over_a_real_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    openai = StrictChat(
        asks(("add_to_groceries", '{"item":"milk","qty":1}')), says("I've ", "added ", "milk ", "to your grocery list.")
    )

    async def test() -> str:
        async with openai.serving() as base_url:
            monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
            monkeypatch.setenv("OPENAI_BASE_URL", base_url)
            tools, prompt = seven_tools(), CONFIGURED.system_prompt
            async with Yard(tools=tools, model="openai:gpt-4o-mini", system_prompt=prompt) as yard:
                return await yard.ask("Add milk to groceries")

    assert (await test()) == "I've added milk to your grocery list."
    assert openai.refusals == []
    first, second = openai.requests
    assert first.model == "gpt-4o-mini"
    assert [tool.function.name for tool in first.tools or ()] == SEVEN
    assert first.messages == [SystemMessage(CONFIGURED.system_prompt), UserMessage("Add milk to groceries")]
    calling, tool_message = second.messages[-2:]
    assert isinstance(calling, AssistantMessage) and isinstance(tool_message, ToolMessage)
    assert [tool_call.id for tool_call in calling.tool_calls or ()] == [tool_message.tool_call_id]
    assert json.loads(tool_message.content) == {
        "ok": True,
        "id": "grocery-1",
        "item": "milk",
        "status": "Needed",
        "qty": 1,
    }


@pytest.mark.proves("003.seven-tools")
async def test_the_seven_tools_of_the_seed_have_their_names_and_the_lists_stand_beside_them() -> None:
    definitions = [as_tool(thing).definition for thing in tools_of("household")]
    assert sorted(definition.name for definition in definitions) == sorted([*SEVEN, *LISTS])
    async with Yard(tools=seven_tools(), model=Scripted([])) as yard, connect_client(yard) as http:
        _, health, _ = await http.ask("GET", "/ai/tools/health")
        _, listed, _ = await http.ask("GET", "/tools")
    (status, listed) = health["status"], listed["tools"]
    assert status == "healthy"
    tools = msgspec.convert(listed, list[dict[str, object]])
    assert sorted(str(tool["name"]) for tool in tools if tool["venue"] == "function") == sorted(SEVEN)


async def test_an_item_is_found_by_its_id_or_its_name_an_unfinished_one_first() -> None:
    async with open_household() as yard:
        for item in ("Milk", "milk", "bread"):
            await call_value(yard, "add_to_groceries", item=item)
        bought = [await call_value(yard, "update_grocery_status", item="MILK", status="Bought") for _ in range(3)]
        assert [item["id"] for item in bought] == ["grocery-2", "grocery-1", "grocery-2"]
        by_id = await call_value(yard, "update_grocery_status", item="grocery-3", status="In cart")
        assert by_id == {"ok": True, "id": "grocery-3", "item": "bread", "status": "In cart"}


@pytest.mark.proves("003.error-caught", "003.error-details")
async def test_a_name_that_nothing_has_is_not_found_and_the_nearest_are_listed() -> None:
    async with open_household() as yard:
        empty = await call_tool(yard, "update_task_status", task="dishes", status="Done")
        assert get_problem(empty) == ("error", "not_found") and "nothing is called" in empty.content
        for item in ("oat milk", "Milk", "bread", "soap"):
            await call_value(yard, "add_to_groceries", item=item)
        missed = await call_tool(yard, "update_grocery_status", item="milj", status="Bought")
        assert get_problem(missed) == ("error", "not_found")
        assert missed.error is not None and missed.error.details == {"wanted": "milj", "nearest": ["Milk"]}
        half = await call_tool(yard, "update_grocery_status", item="oat", status="Bought")
        assert half.error is not None and half.error.details["nearest"] == ["oat milk"]


@pytest.mark.proves("003.error-friendly", "003.tool-exists-checked")
async def test_an_error_ends_in_a_friendly_sentence_never_in_silence() -> None:
    def model(request: ModelRequest) -> Turn:
        last = request.history[-1]
        if not isinstance(last, Result):
            return call("update_grocery_status", item="milk", status="Bought")
        if last.tool == "update_grocery_status":
            return call("throw_away", item="milk")
        assert last.error is not None and last.error.error_type == "unknown_tool"
        return say("I could not ", "find milk, sorry.")

    async with open_yard(model, tools_of("household")) as yard:
        events = await collect_events(yard.run("I bought milk"))
        assert [result.outcome for result in get_results(events)] == ["error", "error"]
        assert join_text(events) == "I could not find milk, sorry."


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("add_to_groceries", {}),
        ("add_to_groceries", {"item": "   "}),
        ("add_to_groceries", {"item": "milk", "qty": 0}),
        ("add_to_groceries", {"item": "milk", "colour": "white"}),
        ("update_grocery_status", {"item": "milk", "status": "Eaten"}),
        ("create_task", {"title": "x", "due": "soon"}),
        ("create_event", {"title": "x", "start": "2026-11-20T10:00", "end": "2026-11-20T10:00"}),
        ("create_event", {"title": "x", "start": "2026-11-20T10:00", "end": "2026-11-20T11:00+01:00"}),
        ("create_event", {"title": "x", "start": "Friday"}),
        ("budget_scan", {"month": "2026-13"}),
        ("ha_service_call", {"domain": "light/../config", "service": "turn_on", "entity_id": "light.kitchen"}),
        ("ha_service_call", {"domain": "light", "service": "turn_on", "entity_id": "everything"}),
    ],
)
async def test_wrong_arguments_are_refused_and_nothing_is_kept(
    tool: str, arguments: dict[str, object], book: Path
) -> None:
    async with open_household() as yard:
        assert get_problem(await call_tool(yard, tool, **arguments)) == ("error", "validation_error")
    assert not book.exists() or rows(book, "SELECT * FROM entries") == []


async def test_tasks_and_events_are_kept_with_their_times() -> None:
    async with open_household() as yard:
        task = await call_value(yard, "create_task", title="call the plumber", due="2026-11-20")
        assert task == {"ok": True, "id": "task-1", "item": "call the plumber", "status": "To do", "due": "2026-11-20"}
        done = await call_value(yard, "update_task_status", task="Call the plumber", status="Done")
        assert (done["id"], done["status"]) == ("task-1", "Done")
        event = await call_value(yard, "create_event", title="dentist", start="2026-11-20T10:00:00+01:00")
        assert (event["start"], event["end"]) == ("2026-11-20T10:00:00+01:00", "2026-11-20T11:00:00+01:00")
        assert (event["id"], event["item"]) == ("event-2", "dentist")


async def test_the_budget_is_added_up_by_category_and_says_that_its_first_rows_are_examples(book: Path) -> None:
    async with open_household() as yard:
        scanned = await call_value(yard, "budget_scan")
        assert scanned["month"] == THIS_MONTH and "example" in str(scanned["note"])
        sums = {"Rent": 950.0, "Groceries": 146.55, "Energy": 78.9, "Leisure": 32.0}
        assert scanned["by_category"] == sums and scanned["total"] == 1207.45
        only = await call_value(yard, "budget_scan", month=THIS_MONTH, category="groceries")
        assert only["by_category"] == {"Groceries": 146.55} and only["total"] == 146.55
        assert await call_value(yard, "budget_scan", month="1999-01") == {
            "ok": True, "month": "1999-01", "by_category": {}, "total": 0,
        }  # fmt: skip
    assert len(rows(book, "SELECT * FROM expenses")) == 10


async def test_many_calls_at_once_share_one_new_file(book: Path) -> None:

    turn = together(*(call("add_to_groceries", item=f"thing {n}") for n in range(40)))
    async with open_yard([turn, say("ok")], tools_of("household")) as yard:
        events = await collect_events(yard.run("a party"))
        assert {result.outcome for result in get_results(events)} == {"ok"}
    assert len(set(rows(book, "SELECT name FROM entries"))) == 40
    assert len(rows(book, "SELECT * FROM expenses")) == 10


async def test_a_file_that_cannot_be_used_is_said_to_be_unavailable(book: Path) -> None:
    book.mkdir(parents=True)
    async with open_household() as yard:
        assert get_problem(await call_tool(yard, "add_to_groceries", item="milk")) == ("error", "unavailable")


def test_the_configuration_asks_before_the_house_is_touched() -> None:
    assert CONFIGURED.tool["ha_service_call"]["approval"] == "ask"
    assert CONFIGURED.limits.turns_per_request == 10
