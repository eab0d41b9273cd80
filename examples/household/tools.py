"""Ten tools for a household: groceries, tasks, events, the budget, and the devices that can be switched.

Each call of a tool decides where entries are stored: in Notion if NOTION_TOKEN is set, else in the SQLite file
HOUSEHOLD_DB.
"""

import asyncio
import os
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated

from household_entries import FINISHED, Entry, GroceryStatus, TaskStatus, find_entry, sum_by_category
from household_home import Home, HomeAssistant, RecordedHome
from household_notion import PUBLIC_URL, VARIABLES, Base, NotionHousehold
from household_sqlite import SqliteHousehold
from pydantic import Field, StringConstraints

from toolyard import ToolError, tool

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Item = Annotated[Name, Field(examples=["milk", "牛奶"])]
Title = Annotated[Name, Field(examples=["water the plants", "给花浇水"])]
NameOrId = Annotated[Name, Field(description="Its name or its id", examples=["milk", "牛奶"])]
TaskOrId = Annotated[Name, Field(description="Its name or its id", examples=["water the plants", "给花浇水"])]
Word = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,64}$")]
Month = Annotated[str, StringConstraints(pattern=r"^\d{4}-(0[1-9]|1[0-2])$")]
Unit = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^[^,]{1,20}$")]
EntityId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,64}\.[a-z0-9_]{1,128}$")]

MAX_LISTED = 100


@tool(
    read_only=True,
    examples=[
        "how much did we spend this month?",
        "show the budget",
        "what did we spend in {month}?",
        "what did {category} cost in {month}?",
        "how much did we spend on {category}?",
        "这个月花了多少钱",
        "{month}花了多少钱",
    ],
)
def budget_scan(
    month: Annotated[Month | None, Field(description="YYYY-MM; this month if left out", examples=["2026-11"])] = None,
    category: Annotated[Name | None, Field(description="Only this category", examples=["groceries"])] = None,
) -> dict[str, object]:
    """Add up a month's expenses by category."""
    month = month or date.today().isoformat()[:7]
    expenses = open_household().expenses(month)
    sums = sum_by_category(expenses)
    if category is not None:
        sums = {name: spent for name, spent in sums.items() if name.casefold() == category.casefold()}
    result: dict[str, object] = {
        "ok": True,
        "month": month,
        "by_category": sums,
        "total": round(sum(sums.values()), 2),
    }
    if any(expense.example for expense in expenses):
        result["note"] = "these include the example expenses that a new household is given"
    return result


@tool(
    examples=[
        "add {item} to groceries",
        "add {qty} {item} to groceries",
        "add {qty} {unit} of {item} to groceries",
        "add {item} to the grocery list",
        "put {item} on the shopping list",
        "put {qty} {unit} of {item} on the shopping list",
        "把{item}加到购物清单",
        "把{item}加入购物清单",
        "购物清单加{qty}{unit}{item}",
    ],
    propose=["we need {item}", "we need {qty} {item}", "we need {qty} {unit} of {item}"],
    says=[
        "Added {qty} {unit} of {item} to the grocery list.",
        "Added {qty} {item} to the grocery list.",
        "已将{qty}{unit}{item}加入购物清单。",
        "已将{item}加入购物清单，数量 {qty}。",
    ],
)
def add_to_groceries(
    item: Item,
    qty: Annotated[int, Field(ge=1, le=10_000, description="A whole number: for 1.5 kg, 1500 with the unit g")] = 1,
    unit: Annotated[
        Unit | None, Field(description="What qty counts, such as kg, g, l or packs", examples=["kg", "盒"])
    ] = None,
) -> dict[str, object]:
    """Put an item on the grocery list."""
    entry = open_household().add(Entry(kind="grocery", name=item, qty=qty, unit=unit or "", status="Needed"))
    return {"ok": True, **_show(entry)}


@tool(
    read_only=True,
    examples=[
        "what is on the grocery list?",
        "what do we still need to buy?",
        "show the groceries",
        "which groceries are {status}?",
        "购物清单上有什么",
        "看看购物清单",
    ],
)
def list_groceries(
    status: Annotated[GroceryStatus | None, Field(description="Only these; all not yet bought if left out")] = None,
) -> dict[str, object]:
    """List what is on the grocery list, with amounts and status."""
    return _list_entries(_filter_by_status(open_household().entries("grocery")[::-1], status))


@tool(
    examples=["mark {item} as {status}", "把{item}标记为{status}"],
    propose=["I {status} {item}", "I have {status} {item}", "{item} is {status}"],
    says=["Marked {item} as {status}.", "已将{item}标记为{status}。"],
)
def update_grocery_status(
    item: NameOrId, status: Annotated[GroceryStatus, Field(examples=["Bought"])]
) -> dict[str, object]:
    """Say what has become of an item on the grocery list."""
    household = open_household()
    entry = household.set_status(find_entry(household.entries("grocery"), item, "grocery item"), status)
    return {"ok": True, "id": entry.id, "item": entry.name, "status": entry.status}


@tool(
    examples=[
        "remind me to {title} {due}",
        "remind me to {title}",
        "add task {title}",
        "add task {title} due {due}",
        "new task: {title}",
        "提醒我{due}{title}",
        "添加任务{title}",
    ],
    says=[
        "Added the task “{title}”, due {due}.",
        "Added the task “{title}”.",
        "已添加任务“{title}”，{due}到期。",
        "已添加任务“{title}”。",
    ],
)
def create_task(
    title: Title,
    due: Annotated[
        date | datetime | None,
        Field(
            description="When it is due: a day, YYYY-MM-DD, or a time on a day, such as 2026-11-20T17:00",
            examples=["tomorrow", "明天"],
        ),
    ] = None,
) -> dict[str, object]:
    """Add a task to the household's list."""
    starts = due.isoformat() if due else ""
    entry = open_household().add(Entry(kind="task", name=title, status="To do", starts=starts))
    return {"ok": True, **_show(entry)}


@tool(
    read_only=True,
    examples=["what is there to do?", "which tasks are open?", "show the tasks", "有哪些任务", "还有什么要做"],
)
def list_tasks(
    status: Annotated[TaskStatus | None, Field(description="Only these; all not yet done if left out")] = None,
) -> dict[str, object]:
    """List the household's tasks, those that are due first at the top."""
    tasks = _filter_by_status(open_household().entries("task")[::-1], status)
    return _list_entries(sorted(tasks, key=lambda task: (not task.starts, task.starts)))


@tool(
    examples=[
        "set task {task} to {status}",
        "set the status of {task} to {status}",
        "把任务{task}标记为{status}",
    ],
    propose=["task {task} is {status}"],
    says=["Set the task “{task}” to {status}.", "已将任务“{task}”标记为{status}。"],
)
def update_task_status(task: TaskOrId, status: Annotated[TaskStatus, Field(examples=["Done"])]) -> dict[str, object]:
    """Say how far a task has come."""
    household = open_household()
    entry = household.set_status(find_entry(household.entries("task"), task, "task"), status)
    return {"ok": True, "id": entry.id, "item": entry.name, "status": entry.status}


@tool(
    examples=[
        "schedule {title} {start}",
        "schedule {title} at {location} {start}",
        "put {title} in the calendar {start}",
        "add {title} to the calendar {start}",
        "安排{start}{title}",
        "在日历里添加{title}，{start}",
    ],
    says=[
        "Added “{title}” to the calendar: {start}, {location}.",
        "Added “{title}” to the calendar: {start}.",
        "已将“{title}”加入日历：{start}，{location}。",
        "已将“{title}”加入日历：{start}。",
    ],
)
def create_event(
    title: Annotated[Name, Field(examples=["dentist", "看牙医"])],
    start: Annotated[
        datetime,
        Field(description="ISO 8601, such as 2026-11-20T10:00", examples=["tomorrow at 10:00", "明天上午10点"]),
    ],
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
    entry = Entry(kind="event", name=title, starts=starts, ends=ends, location=location)
    return {"ok": True, **_show(open_household().add(entry))}


@tool(
    read_only=True,
    examples=[
        "what is in the calendar?",
        "which events are there from {from_day} to {to_day}?",
        "show the events",
        "日历上有什么",
        "有哪些日程",
    ],
)
def list_events(
    from_day: Annotated[date | None, Field(description="YYYY-MM-DD; today if left out")] = None,
    to_day: Annotated[date | None, Field(description="The last day, YYYY-MM-DD; no end if left out")] = None,
) -> dict[str, object]:
    """List the events in the household's calendar in their order."""
    first = (from_day or date.today()).isoformat()
    last = to_day.isoformat() if to_day else "9999"
    if last < first:
        raise ToolError("to_day is before from_day", "validation_error", {"from_day": first, "to_day": last})
    events = [
        event
        for event in open_household().entries("event")
        if first <= (event.ends or event.starts)[:10] and event.starts[:10] <= last
    ]
    return _list_entries(sorted(events, key=lambda event: event.starts))


@tool(
    approval="ask",
    examples=["call {service} of {domain} on {entity_id}", "对{entity_id}执行{domain}的{service}"],
)
async def ha_service_call(
    domain: Annotated[Word, Field(description="Such as light, switch, climate", examples=["light"])],
    service: Annotated[Word, Field(description="Such as turn_on, turn_off", examples=["turn_on"])],
    entity_id: Annotated[EntityId, Field(description="Such as light.kitchen", examples=["light.kitchen"])],
    data: Annotated[dict[str, object] | None, Field(description="What else the service takes")] = None,
) -> dict[str, object]:
    """Switch something in the house through Home Assistant."""
    outcome = await open_home().call(domain, service, entity_id, data or {})
    return {"ok": True, "item": f"{domain}.{service} {entity_id}", **outcome}


async def doctor_checks() -> list[tuple[str, bool, str]]:
    """Check the connection to Notion, for `toolyard doctor`."""
    household = open_household()
    if isinstance(household, NotionHousehold):
        return await asyncio.to_thread(household.check)
    return [("notion", True, f"not connected: everything is kept in {household.path}")]


def open_household() -> NotionHousehold | SqliteHousehold:
    """Return the store of this household that the environment selects."""
    token = os.environ.get("NOTION_TOKEN")
    if not token:
        return _open_local_household()
    databases: dict[Base, str] = {base: os.environ.get(variable, "") for base, variable in VARIABLES.items()}
    address = os.environ.get("NOTION_BASE_URL") or PUBLIC_URL
    return NotionHousehold(token=token, databases=databases, base_url=address)


def open_home() -> Home:
    """Return the connection to Home Assistant, or a home that only records calls if none is configured."""
    url, token = os.environ.get("HA_URL", ""), os.environ.get("HA_TOKEN", "")
    if not url and not token:
        return RecordedHome(_open_local_household())
    if not url.startswith(("http://", "https://")) or not token:
        raise ToolError("Home Assistant is half connected: set HA_URL (http://…) and HA_TOKEN", "unavailable")
    return HomeAssistant(url, token)


def _open_local_household() -> SqliteHousehold:
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return SqliteHousehold(Path(os.environ.get("HOUSEHOLD_DB") or Path(data) / "toolyard" / "household.db"))


def _filter_by_status(entries: Sequence[Entry], status: str | None) -> list[Entry]:
    """Return the entries with a status, or all unfinished entries if it is None."""
    return [entry for entry in entries if (entry.status == status if status else entry.status not in FINISHED)]


def _list_entries(entries: Sequence[Entry]) -> dict[str, object]:
    result: dict[str, object] = {
        "ok": True,
        "total": len(entries),
        "items": [_show(entry) for entry in entries[:MAX_LISTED]],
    }
    if len(entries) > MAX_LISTED:
        result["note"] = f"there are {len(entries) - MAX_LISTED} more, which are not shown"
    return result


def _show(entry: Entry) -> dict[str, object]:
    """Return an entry as tools show it; fields that do not apply are left out."""
    fields: dict[str, object] = {"id": entry.id, "item": entry.name}
    if entry.status:
        fields["status"] = entry.status
    match entry.kind:
        case "grocery":
            fields |= {"qty": entry.qty, "unit": entry.unit}
        case "task":
            fields["due"] = entry.starts
        case "event":
            fields |= {"start": entry.starts, "end": entry.ends, "location": entry.location}
    return {name: value for name, value in fields.items() if value != ""}
