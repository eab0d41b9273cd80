"""The household can say what is on its lists, with units and times as they were told."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from examples.at_home import call_tool, call_value, open_household
from examples.loading import tools_of
from support import get_problem
from toolyard.venues.function import as_tool

LISTS = ("list_groceries", "list_tasks", "list_events")


async def test_the_grocery_list_shows_what_is_still_to_buy_with_amounts_and_units() -> None:
    async with open_household() as yard:
        assert await call_value(yard, "list_groceries") == {"ok": True, "total": 0, "items": []}
        potatoes = await call_value(yard, "add_to_groceries", item="potatoes", qty=2, unit="kg")
        assert potatoes == {
            "ok": True, "id": "grocery-1", "item": "potatoes", "status": "Needed", "qty": 2, "unit": "kg",
        }  # fmt: skip
        for item in ("milk", "soap"):
            await call_value(yard, "add_to_groceries", item=item)
        await call_value(yard, "update_grocery_status", item="milk", status="Bought")
        await call_value(yard, "update_grocery_status", item="soap", status="In cart")
        listed = await call_value(yard, "list_groceries")
        assert listed["total"] == 2 and listed["items"] == [
            {"id": "grocery-1", "item": "potatoes", "status": "Needed", "qty": 2, "unit": "kg"},
            {"id": "grocery-3", "item": "soap", "status": "In cart", "qty": 1},
        ]
        bought = await call_value(yard, "list_groceries", status="Bought")
        assert bought["items"] == [{"id": "grocery-2", "item": "milk", "status": "Bought", "qty": 1}]


async def test_tasks_are_listed_by_when_they_are_due_and_keep_their_time_of_day() -> None:
    async with open_household() as yard:
        await call_value(yard, "create_task", title="mow the lawn")
        await call_value(yard, "create_task", title="pay the rent", due="2026-11-21")
        due = await call_value(yard, "create_task", title="call the plumber", due="2026-11-20T17:00")
        assert due["due"] == "2026-11-20T17:00:00"
        await call_value(yard, "create_task", title="water the plants", due="2026-11-20T00:00")
        await call_value(yard, "update_task_status", task="pay the rent", status="Done")
        listed = await call_value(yard, "list_tasks")
        assert listed["total"] == 3 and listed["items"] == [
            {"id": "task-4", "item": "water the plants", "status": "To do", "due": "2026-11-20T00:00:00"},
            {"id": "task-3", "item": "call the plumber", "status": "To do", "due": "2026-11-20T17:00:00"},
            {"id": "task-1", "item": "mow the lawn", "status": "To do"},
        ]
        done = await call_value(yard, "list_tasks", status="Done")
        assert done["items"] == [{"id": "task-2", "item": "pay the rent", "status": "Done", "due": "2026-11-21"}]


async def test_events_are_listed_in_order_from_today_or_within_the_days_asked_for() -> None:
    async with open_household() as yard:
        await call_value(yard, "create_event", title="concert", start="2099-12-01T20:00", location="Town Hall")
        await call_value(yard, "create_event", title="holiday", start="2099-11-20T10:00", end="2099-11-25T10:00")
        await call_value(yard, "create_event", title="long ago", start="1999-11-20T10:00")
        listed = await call_value(yard, "list_events")
        assert listed["total"] == 2 and listed["items"] == [
            {"id": "event-2", "item": "holiday", "start": "2099-11-20T10:00:00", "end": "2099-11-25T10:00:00"},
            {"id": "event-1", "item": "concert", "start": "2099-12-01T20:00:00", "end": "2099-12-01T21:00:00",
             "location": "Town Hall"},
        ]  # fmt: skip
        within = await call_value(yard, "list_events", from_day="2099-11-23", to_day="2099-11-24")
        assert [event["item"] for event in items_of(within)] == ["holiday"]
        assert (await call_value(yard, "list_events", from_day="1999-11-20", to_day="1999-11-20"))["total"] == 1
        backwards = await call_tool(yard, "list_events", from_day="2099-11-24", to_day="2099-11-23")
        assert get_problem(backwards) == ("error", "validation_error")


def items_of(listing: dict[str, object]) -> list[dict[str, object]]:
    return msgspec.convert(listing["items"], list[dict[str, object]])


async def test_a_long_list_is_cut_and_says_how_many_there_are() -> None:
    async with open_household() as yard:
        for number in range(103):
            await call_value(yard, "add_to_groceries", item=f"thing {number}")
        listed = await call_value(yard, "list_groceries")
        assert listed["total"] == 103 and len(items_of(listed)) == 100
        assert "3 more" in str(listed["note"])


def test_the_lists_only_read() -> None:
    tools = {tool.definition.name: tool.definition for tool in map(as_tool, tools_of("household"))}
    assert len(tools) == 10
    assert [name for name, tool in tools.items() if tool.read_only] == ["budget_scan", *LISTS]
    assert all(tools[name].examples for name in LISTS)


async def test_a_file_of_the_first_version_is_taken_over_with_what_it_holds(book: Path) -> None:
    book.parent.mkdir(parents=True)
    with closing(sqlite3.connect(book)) as file, file:
        file.execute(
            "CREATE TABLE entries (id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, name TEXT NOT NULL,"
            " status TEXT NOT NULL, qty INTEGER NOT NULL, starts TEXT NOT NULL, ends TEXT NOT NULL,"
            " place TEXT NOT NULL)"
        )
        file.execute("INSERT INTO entries VALUES (1, 'grocery', 'milk', 'Needed', 3, '', '', '')")
        file.execute("PRAGMA user_version = 1")
    async with open_household() as yard:
        await call_value(yard, "add_to_groceries", item="flour", qty=500, unit="g")
        assert items_of(await call_value(yard, "list_groceries")) == [
            {"id": "grocery-1", "item": "milk", "status": "Needed", "qty": 3},
            {"id": "grocery-2", "item": "flour", "status": "Needed", "qty": 500, "unit": "g"},
        ]


@pytest.mark.parametrize("tool", LISTS)
async def test_a_list_of_something_unknown_is_refused(tool: str) -> None:
    async with open_household() as yard:
        assert get_problem(await call_tool(yard, tool, colour="red")) == ("error", "validation_error")
