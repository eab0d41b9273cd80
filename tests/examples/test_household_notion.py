"""The household in Notion, through notion-client, against a strict Notion on a real socket."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from examples.at_home import at_home, called, value
from examples.strict_notion import TOKEN, StrictNotion
from support import problem
from toolyard import Yard

NOTION = {
    "NOTION_TOKEN": TOKEN,
    "NOTION_GROCERIES_DATABASE": "database-of-groceries",
    "NOTION_TASKS_DATABASE": "database-of-tasks",
    "NOTION_EVENTS_DATABASE": "database-of-events",
    "NOTION_EXPENSES_DATABASE": "database-of-expenses",
}


def in_notion(test: Callable[[Yard, StrictNotion], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    async def opened(yard: Yard) -> None:
        notion = StrictNotion()
        async with notion.serving() as base_url:
            for variable, text in {**NOTION, "NOTION_BASE_URL": base_url}.items():
                monkeypatch.setenv(variable, text)
            await test(yard, notion)

    at_home(opened)


def test_notion_keeps_what_sqlite_keeps(monkeypatch: pytest.MonkeyPatch, book: Path) -> None:
    async def test(yard: Yard, notion: StrictNotion) -> None:
        added = await value(yard, "add_to_groceries", item="milk", qty=2)
        assert added == {"ok": True, "id": "page-1", "item": "milk", "status": "Needed", "qty": 2}
        for item in ("bread", "soap", "oat milk"):
            await value(yard, "add_to_groceries", item=item)
        bought = await value(yard, "update_grocery_status", item="Milk", status="Bought")
        assert bought == {"ok": True, "id": "page-1", "item": "milk", "status": "Bought"}
        missed = await called(yard, "update_grocery_status", item="brad", status="Bought")
        assert missed.error is not None and missed.error.details == {"wanted": "brad", "nearest": ["bread"]}
        task = await value(yard, "create_task", title="call the plumber", due="2026-11-20")
        done = await value(yard, "update_task_status", task=str(task["id"]), status="Done")
        assert (done["item"], done["status"]) == ("call the plumber", "Done")
        where = await value(yard, "create_event", title="dentist", start="2026-11-20T10:00", location="Main Street")
        assert where["location"] == "Main Street"
        assert notion.refusals == []
        shown = [msgspec.to_builtins(page.cells) for page in notion.pages]
        assert shown[0]["Qty"] == {"number": 2} and shown[0]["Status"] == {"select": {"name": "Bought"}}
        assert shown[-2]["Due"] == {"date": {"start": "2026-11-20", "end": None}}
        assert shown[-1]["When"] == {"date": {"start": "2026-11-20T10:00:00", "end": "2026-11-20T11:00:00"}}

    in_notion(test, monkeypatch)
    assert not book.exists()


def test_a_budget_is_read_from_notion_page_by_page_and_only_for_its_month(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(yard: Yard, notion: StrictNotion) -> None:
        for day, amount in (("11-01", 10.1), ("11-30", 20.2), ("11-15", 0.7), ("12-01", 99), ("10-31", 99)):
            dated = {"date": {"start": f"2026-{day}"}}
            notion.put("expenses", Amount={"number": amount}, Category={"select": {"name": "Food"}}, Date=dated)
        scanned = await value(yard, "budget_scan", month="2026-11")
        assert scanned == {"ok": True, "month": "2026-11", "by_category": {"Food": 31.0}, "total": 31.0}
        assert notion.asked.count("POST /v1/data_sources/source-of-expenses/query") == 2
        assert notion.refusals == []

    in_notion(test, monkeypatch)


@pytest.mark.parametrize(
    ("failures", "variables", "error_type", "said"),
    [
        ([], {"NOTION_TOKEN": "wrong"}, "permission_denied", "API token is invalid"),
        ([], {"NOTION_GROCERIES_DATABASE": "elsewhere"}, "not_found", "Could not find database"),
        ([], {"NOTION_GROCERIES_DATABASE": ""}, "unavailable", "NOTION_GROCERIES_DATABASE"),
        ([], {"NOTION_GROCERIES_DATABASE": "database-of-tasks"}, "validation_error", "Item is not a property"),
        ([(503, "service_unavailable")] * 3, {}, "unavailable", "service_unavailable"),
        ([], {"NOTION_BASE_URL": "http://127.0.0.1:9"}, "unavailable", "cannot be reached"),
    ],
)
def test_what_notion_refuses_is_told_with_its_type_and_without_the_token(
    failures: list[tuple[int, str]],
    variables: dict[str, str],
    error_type: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(yard: Yard, notion: StrictNotion) -> None:
        for variable, changed in variables.items():
            monkeypatch.setenv(variable, changed)
        notion.failures = failures
        refused = await called(yard, "add_to_groceries", item="milk")
        assert problem(refused) == ("error", error_type) and said in refused.content
        assert TOKEN not in refused.content and notion.pages == []

    in_notion(test, monkeypatch)


def test_a_busy_notion_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(yard: Yard, notion: StrictNotion) -> None:
        notion.failures = [(429, "rate_limited"), (429, "rate_limited")]
        assert (await value(yard, "add_to_groceries", item="milk"))["id"] == "page-1"
        assert len(notion.pages) == 1

    in_notion(test, monkeypatch)
