"""Seven tools for a household: groceries, tasks, events, the budget, and the things that can be switched.

They check what they are given and word what came of it. Where things are kept is decided when a tool is called: in
Notion where NOTION_TOKEN is set, else in the SQLite file HOUSEHOLD_DB.
"""

import os
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated

from household_entries import Entry, GroceryStatus, Household, TaskStatus, by_category, find
from household_home import Home, HomeAssistant, PaperHome
from household_notion import PUBLIC_URL, VARIABLES, Base, NotionHousehold
from household_sqlite import SqliteHousehold
from pydantic import Field, StringConstraints

from toolyard import ToolError, tool

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
NameOrId = Annotated[Name, Field(description="Its name or its id")]
Word = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,64}$")]
Month = Annotated[str, StringConstraints(pattern=r"^\d{4}-(0[1-9]|1[0-2])$")]
EntityId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,64}\.[a-z0-9_]{1,128}$")]


@tool(read_only=True, examples=["how much did we spend this month?", "what did groceries cost in 2026-11?"])
def budget_scan(
    month: Annotated[Month | None, Field(description="YYYY-MM; this month if left out")] = None,
    category: Annotated[Name | None, Field(description="Only this category")] = None,
) -> dict[str, object]:
    """Add up a month's expenses by category."""
    month = month or date.today().isoformat()[:7]
    expenses = household().expenses(month)
    sums = by_category(expenses)
    if category is not None:
        sums = {name: spent for name, spent in sums.items() if name.casefold() == category.casefold()}
    scanned: dict[str, object] = {
        "ok": True,
        "month": month,
        "by_category": sums,
        "total": round(sum(sums.values()), 2),
    }
    if any(one.example for one in expenses):
        scanned["note"] = "these include the example expenses that a new household is given"
    return scanned


@tool(examples=["add milk to groceries", "we need 3 lemons"])
def add_to_groceries(item: Name, qty: Annotated[int, Field(ge=1, le=1000)] = 1) -> dict[str, object]:
    """Put an item on the grocery list."""
    return _told(household().add(Entry(kind="grocery", name=item, qty=qty, status="Needed")), qty=qty)


@tool(examples=["I bought milk"])
def update_grocery_status(item: NameOrId, status: GroceryStatus) -> dict[str, object]:
    """Say what has become of an item on the grocery list."""
    home = household()
    return _told(home.set_status(find(home.entries("grocery"), item, "grocery item"), status))


@tool(examples=["add task call the plumber", "remind me to water the plants on 2026-11-20"])
def create_task(
    title: Name, due: Annotated[date | None, Field(description="The day it is due, YYYY-MM-DD")] = None
) -> dict[str, object]:
    """Add a task to the household's list."""
    starts = due.isoformat() if due else ""
    entry = household().add(Entry(kind="task", name=title, status="To do", starts=starts))
    return _told(entry, **({"due": starts} if starts else {}))


@tool(examples=["I have called the plumber"])
def update_task_status(task: NameOrId, status: TaskStatus) -> dict[str, object]:
    """Say how far a task has come."""
    home = household()
    return _told(home.set_status(find(home.entries("task"), task, "task"), status))


@tool(examples=["dentist on 2026-11-20 at 10:00"])
def create_event(
    title: Name,
    start: Annotated[datetime, Field(description="ISO 8601, such as 2026-11-20T10:00")],
    end: Annotated[datetime | None, Field(description="ISO 8601; an hour after the start if left out")] = None,
    location: Annotated[str, StringConstraints(strip_whitespace=True, max_length=200)] = "",
) -> dict[str, object]:
    """Put an event into the household's calendar."""
    end = end or start + timedelta(hours=1)
    if (start.tzinfo is None) != (end.tzinfo is None):
        raise ToolError("give both times with a time zone or both without", "validation_error")
    starts, ends = start.isoformat(), end.isoformat()
    if end <= start:
        raise ToolError("the event ends before it has begun", "validation_error", {"start": starts, "end": ends})
    entry = household().add(Entry(kind="event", name=title, starts=starts, ends=ends, place=location))
    return _told(entry, start=starts, end=ends, **({"location": location} if location else {}))


@tool(approval="ask", examples=["turn on the kitchen light"])
async def ha_service_call(
    domain: Annotated[Word, Field(description="Such as light, switch, climate")],
    service: Annotated[Word, Field(description="Such as turn_on, turn_off")],
    entity_id: Annotated[EntityId, Field(description="Such as light.kitchen")],
    data: Annotated[dict[str, object] | None, Field(description="What else the service takes")] = None,
) -> dict[str, object]:
    """Switch something in the house through Home Assistant."""
    became = await home().call(domain, service, entity_id, data or {})
    return {"ok": True, "item": f"{domain}.{service} {entity_id}", **became}


def household() -> Household:
    """Where this household is kept, as the environment says now."""
    token = os.environ.get("NOTION_TOKEN")
    if not token:
        return _local()
    databases: dict[Base, str] = {base: os.environ.get(variable, "") for base, variable in VARIABLES.items()}
    address = os.environ.get("NOTION_BASE_URL") or PUBLIC_URL
    return NotionHousehold(token=token, databases=databases, base_url=address)


def home() -> Home:
    url, token = os.environ.get("HA_URL", ""), os.environ.get("HA_TOKEN", "")
    if not url and not token:
        return PaperHome(_local())
    if not url.startswith(("http://", "https://")) or not token:
        raise ToolError("Home Assistant is half connected: set HA_URL (http://…) and HA_TOKEN", "unavailable")
    return HomeAssistant(url, token)


def _local() -> SqliteHousehold:
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return SqliteHousehold(Path(os.environ.get("HOUSEHOLD_DB") or Path(data) / "toolyard" / "household.db"))


def _told(entry: Entry, **more: object) -> dict[str, object]:
    status = {"status": entry.status} if entry.status else {}
    return {"ok": True, "id": entry.id, "item": entry.name, **status, **more}
