"""The household in Notion, through notion-client, against a strict Notion on a real socket."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from examples.at_home import call_tool, call_value, open_household
from examples.strict_notion import SCHEMAS, STATUS_GROUPS, TOKEN, SelectCell, StatusCell, StrictNotion
from support import get_problem
from toolyard import Yard

NOTION = {
    "NOTION_TOKEN": TOKEN,
    "NOTION_GROCERIES_DATABASE": "database-of-groceries",
    "NOTION_TASKS_DATABASE": "database-of-tasks",
    "NOTION_EVENTS_DATABASE": "database-of-events",
    "NOTION_EXPENSES_DATABASE": "database-of-expenses",
}


@asynccontextmanager
async def open_notion(
    monkeypatch: pytest.MonkeyPatch, notion: StrictNotion | None = None
) -> AsyncGenerator[tuple[Yard, StrictNotion], None]:
    """Open the household's yard, which keeps its lists in a Notion."""
    notion = notion or StrictNotion()
    async with open_household() as yard, notion.serving() as base_url:
        for variable, text in {**NOTION, "NOTION_BASE_URL": base_url}.items():
            monkeypatch.setenv(variable, text)
        yield yard, notion


async def test_notion_keeps_what_sqlite_keeps(monkeypatch: pytest.MonkeyPatch, book: Path) -> None:
    async with open_notion(monkeypatch) as (yard, notion):
        added = await call_value(yard, "add_to_groceries", item="milk", qty=2)
        assert added == {"ok": True, "id": "page-1", "item": "milk", "status": "Needed", "qty": 2}
        for item in ("bread", "soap", "oat milk"):
            await call_value(yard, "add_to_groceries", item=item)
        bought = await call_value(yard, "update_grocery_status", item="Milk", status="Bought")
        assert bought == {"ok": True, "id": "page-1", "item": "milk", "status": "Bought"}
        missed = await call_tool(yard, "update_grocery_status", item="brad", status="Bought")
        assert missed.error is not None and missed.error.details == {"wanted": "brad", "nearest": ["bread"]}
        task = await call_value(yard, "create_task", title="call the plumber", due="2026-11-20")
        done = await call_value(yard, "update_task_status", task=str(task["id"]), status="Done")
        assert (done["item"], done["status"]) == ("call the plumber", "Done")
        where = await call_value(
            yard, "create_event", title="dentist", start="2026-11-20T10:00", location="Main Street"
        )
        assert where["location"] == "Main Street"
        assert notion.refusals == []
        shown = [msgspec.to_builtins(page.cells) for page in notion.pages]
        assert shown[0]["Qty"] == {"number": 2} and shown[0]["Status"] == {"select": {"name": "Bought"}}
        assert shown[-2]["Due"] == {"date": {"start": "2026-11-20", "end": None}}
        start = datetime(2026, 11, 20, 10).astimezone()
        ends = (start + timedelta(hours=1)).isoformat()
        assert shown[-1]["When"] == {"date": {"start": start.isoformat(), "end": ends}}
    assert not book.exists()


async def test_a_budget_is_read_from_notion_page_by_page_and_only_for_its_month(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_notion(monkeypatch) as (yard, notion):
        for day, amount in (("11-01", 10.1), ("11-30", 20.2), ("11-15", 0.7), ("12-01", 99), ("10-31", 99)):
            dated = {"date": {"start": f"2026-{day}"}}
            notion.put("expenses", Amount={"number": amount}, Category={"select": {"name": "Food"}}, Date=dated)
        scanned = await call_value(yard, "budget_scan", month="2026-11")
        assert scanned == {"ok": True, "month": "2026-11", "by_category": {"Food": 31.0}, "total": 31.0}
        assert notion.requests.count("POST /v1/data_sources/source-of-expenses/query") == 2
        assert notion.refusals == []


@pytest.mark.parametrize(
    ("failures", "variables", "error_type", "expected"),
    [
        ([], {"NOTION_TOKEN": "wrong"}, "permission_denied", "API token is invalid"),
        ([], {"NOTION_GROCERIES_DATABASE": "elsewhere"}, "not_found", "Could not find database"),
        ([], {"NOTION_GROCERIES_DATABASE": ""}, "unavailable", "NOTION_GROCERIES_DATABASE"),
        ([], {"NOTION_GROCERIES_DATABASE": "database-of-tasks"}, "validation_error", "Item is not a property"),
        ([(503, "service_unavailable")] * 3, {}, "unavailable", "service_unavailable"),
        ([], {"NOTION_BASE_URL": "http://127.0.0.1:9"}, "unavailable", "cannot be reached"),
    ],
)
async def test_what_notion_refuses_is_told_with_its_type_and_without_the_token(
    failures: list[tuple[int, str]],
    variables: dict[str, str],
    error_type: str,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_notion(monkeypatch) as (yard, notion):
        for variable, changed in variables.items():
            monkeypatch.setenv(variable, changed)
        notion.failures = failures
        refused = await call_tool(yard, "add_to_groceries", item="milk")
        assert get_problem(refused) == ("error", error_type) and expected in refused.content
        assert TOKEN not in refused.content and notion.pages == []


async def test_a_busy_notion_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_notion(monkeypatch) as (yard, notion):
        notion.failures = [(429, "rate_limited"), (429, "rate_limited")]
        assert (await call_value(yard, "add_to_groceries", item="milk"))["id"] == "page-1"
        assert len(notion.pages) == 1


def with_status_columns(**groups: list[str]) -> StrictNotion:
    """A Notion whose Status columns are of the type status, and whose units are chosen from a list."""
    schemas = {
        base: {**columns, **({"Status": "status"} if "Status" in columns else {})} for base, columns in SCHEMAS.items()
    }
    schemas["groceries"]["Unit"] = "select"
    return StrictNotion(schemas=schemas, status_groups=groups or dict(STATUS_GROUPS))


async def test_units_and_times_are_kept_in_notion_and_listed_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_notion(monkeypatch) as (yard, notion):
        await call_value(yard, "add_to_groceries", item="potatoes", qty=2, unit="kg")
        await call_value(yard, "add_to_groceries", item="milk")
        listed = await call_value(yard, "list_groceries")
        assert listed["items"] == [
            {"id": "page-1", "item": "potatoes", "status": "Needed", "qty": 2, "unit": "kg"},
            {"id": "page-2", "item": "milk", "status": "Needed", "qty": 1},
        ]
        await call_value(yard, "create_task", title="call the plumber", due="2026-11-20T17:00:00+01:00")
        await call_value(yard, "create_task", title="pay the rent", due="2026-11-20")
        tasks = await call_value(yard, "list_tasks")
        assert tasks["items"] == [
            {"id": "page-4", "item": "pay the rent", "status": "To do", "due": "2026-11-20"},
            {"id": "page-3", "item": "call the plumber", "status": "To do", "due": "2026-11-20T17:00:00+01:00"},
        ]
        await call_value(
            yard, "create_event", title="dentist", start="2026-11-20T10:00:00+01:00", location="Main Street"
        )
        events = await call_value(yard, "list_events", from_day="2026-11-20", to_day="2026-11-20")
        assert events["items"] == [
            {
                "id": "page-5",
                "item": "dentist",
                "start": "2026-11-20T10:00:00+01:00",
                "end": "2026-11-20T11:00:00+01:00",
                "location": "Main Street",
            },
        ]
        assert notion.refusals == []


async def test_a_time_without_a_zone_is_the_households_own_and_not_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "EST5")
    time.tzset()
    try:
        async with open_notion(monkeypatch) as (yard, notion):
            await call_value(yard, "create_task", title="call the plumber", due="2026-11-20T17:00")
            assert msgspec.to_builtins(notion.pages[0].cells)["Due"]["date"]["start"] == "2026-11-20T17:00:00-05:00"
            tasks = await call_value(yard, "list_tasks")
            assert tasks["items"] == [
                {"id": "page-1", "item": "call the plumber", "status": "To do", "due": "2026-11-20T17:00:00-05:00"}
            ]
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


@pytest.mark.parametrize(
    ("notion", "expected"),
    [
        (StrictNotion(), ["Needed", "In cart", "Bought"]),
        (with_status_columns(), ["Not started", "In progress", "Done"]),
        (
            with_status_columns(**{"To-do": ["Idea", "Needed"], "In progress": ["In cart"], "Complete": ["Bought"]}),
            ["Needed", "In cart", "Bought"],
        ),
    ],
    ids=["select", "status", "status with our own words"],
)
@pytest.mark.proves("003.notion-columns")
async def test_a_status_may_be_a_select_or_a_status_column(
    notion: StrictNotion, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:

    def status_of(notion: StrictNotion) -> str:
        cell = notion.pages[0].cells["Status"]
        option = cell.status if isinstance(cell, StatusCell) else cell.select if isinstance(cell, SelectCell) else None
        assert option is not None
        return option.name

    async with open_notion(monkeypatch, notion) as (yard, notion):
        added = await call_value(yard, "add_to_groceries", item="milk", qty=2, unit="l")
        assert added["status"] == "Needed"
        statuses = [status_of(notion)]
        for status in ("In cart", "Bought"):
            changed = await call_value(yard, "update_grocery_status", item="milk", status=status)
            assert changed["status"] == status
            assert (await call_value(yard, "list_groceries", status=status))["total"] == 1
            statuses.append(status_of(notion))
        assert statuses == expected
        assert (await call_value(yard, "list_groceries"))["total"] == 0
        assert notion.refusals == []
        cells = msgspec.to_builtins(notion.pages[0].cells)
        assert cells["Item"] == {"title": [{"text": {"content": "milk"}, "type": "text"}]}
        assert cells["Qty"] == {"number": 2}
