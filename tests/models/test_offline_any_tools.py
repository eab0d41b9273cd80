"""Tools as people bring them: what a parameter is called, how it is typed and what is said of it fills it."""

from datetime import date, datetime
from enum import Enum
from typing import Annotated, Literal

import pytest
from pydantic import Field

from toolyard import tool
from toolyard.core.tools import Tool
from toolyard.models._offline.matching import Matcher
from toolyard.models._offline.places import fits, shape_of
from toolyard.models._offline.profiles import profile_of
from toolyard.models._offline.progress import Wanted, advance
from toolyard.models._offline.requests import Request, understand

NOW = datetime(2026, 11, 15, 10, 0)  # a Sunday


class Room(Enum):
    KITCHEN = "kitchen"
    LIVING_ROOM = "living_room"
    OFFICE = "office"


Money = Literal["USD", "EUR", "JPY"]


@tool
def switch_light(room: Room, on: Annotated[bool, Field(description="true to turn it on")]) -> None:
    """Turn the light in a room on or off."""


@tool
def dim_light(room: Room, brightness: Annotated[int, Field(description="Percent")]) -> None:
    """Set the brightness of the light in a room."""


@tool
def lock_door(door: Literal["front", "back"]) -> None:
    """Lock a door."""


@tool(read_only=True)
def convert_currency(amount: float, from_currency: Money, to_currency: Money) -> None:
    """Convert an amount of money from one currency to another."""


@tool(read_only=True, examples=["any new mail?"])
def search_emails(
    query: str | None = None, folder: Literal["inbox", "archive"] = "inbox", unread: bool = False
) -> None:
    """Search the mailbox for e-mails."""


@tool(sources={"email_id": "search_emails"})
def reply_to_email(email_id: str, body: str) -> None:
    """Reply to an e-mail."""


@tool
def send_email(to: Annotated[str, Field(json_schema_extra={"format": "email"})], subject: str, body: str) -> None:
    """Write and send a new e-mail."""


@tool
def create_event(title: str, start: datetime, duration_minutes: int = 60) -> None:
    """Create a new event in the calendar."""


@tool(read_only=True)
def find_free_time(day: date) -> None:
    """Find free slots in the calendar on a given day."""


@tool
def request_leave(kind: Literal["vacation", "sick"], first_day: date, last_day: date) -> None:
    """Ask for days off."""


@tool
def set_ticket_status(ticket_number: int, status: Literal["open", "closed"]) -> None:
    """Change the status of a ticket, for example close it."""


@tool(read_only=True)
def track_parcel(parcel: Annotated[str, Field(pattern=r"^SF\d{5}$")]) -> None:
    """Where a parcel is."""


@tool(read_only=True)
def search_flights(origin: str, destination: str, day: date) -> None:
    """Search flights between two cities."""


@tool(read_only=True)
def get_weather(city: str, day: date | None = None) -> None:
    """Get the weather forecast for a city."""


@tool(read_only=True)
def get_current_time(timezone: str) -> None:
    """Get the current time in a time zone."""


@tool
def add_issue_comment(owner: str, repo: str, issue_number: int, body: str) -> None:
    """Add a comment to an issue of a repository."""


@tool(read_only=True)
def calculate(expression: str) -> None:
    """Work out an arithmetic expression."""


@tool
def request_equipment(item: Literal["monitor", "headset"], quantity: int = 1) -> None:
    """Ask for equipment for your desk."""


@tool(description="查询账户余额", read_only=True)
def get_balance(account: Annotated[Literal["储蓄", "信用卡"], Field(description="账户")] = "储蓄") -> None: ...


@tool(description="添加新的收款人")
def add_payee(
    name: Annotated[str, Field(description="姓名")],
    card_number: Annotated[str, Field(description="银行卡号", pattern=r"^\d{16}$")],
) -> None: ...


@tool(description="按姓名查找申请", read_only=True)
def list_requests(applicant: Annotated[str, Field(description="申请人")]) -> None: ...


@tool(description="通过", sources={"request_id": "list_requests"}, examples=["批一下张磊的年假"])
def approve_request(request_id: Annotated[str, Field(description="申请编号")]) -> None: ...


@tool(description="搜索一个城市的酒店", read_only=True)
def search_hotels(
    city: Annotated[str, Field(description="城市名称")],
    stars: Annotated[int | None, Field(description="星级")] = None,
) -> None: ...


ENGLISH = (
    switch_light, dim_light, lock_door, convert_currency, search_emails, reply_to_email, send_email, create_event,
    find_free_time, request_leave, set_ticket_status, track_parcel, search_flights, get_weather, get_current_time,
    add_issue_comment, calculate, request_equipment,
)  # fmt: skip
CHINESE = (get_balance, add_payee, list_requests, approve_request, search_hotels)


def asked(message: str, tools: tuple[Tool, ...]) -> tuple[Request, ...]:
    return understand(message, Matcher([profile_of(one, "") for one in tools]), NOW).requests


def told(request: Request) -> tuple[str, dict[str, object]]:
    """The tool and its arguments; of one whose value another tool must find, what is looked for."""
    return request.profile.tool.name, request.values | ({"…": request.item} if request.producer else {})


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("Turn on the kitchen light", [("switch_light", {"room": "kitchen", "on": True})]),
        (
            "turn off the light in the living room and the office",
            [("switch_light", {"room": "living_room", "on": False}), ("switch_light", {"room": "office", "on": False})],
        ),
        ("Dim the office light to 40%", [("dim_light", {"room": "office", "brightness": 40})]),
        ("Is the front door locked?", []),
        (
            "How much is 50 euros in dollars?",
            [("convert_currency", {"amount": 50, "from_currency": "EUR", "to_currency": "USD"})],
        ),
        ("show my unread mails", [("search_emails", {"unread": True})]),
        ("What's in my archive?", [("search_emails", {"folder": "archive"})]),
        ("Reply to Tom: yes, I'm coming", [("reply_to_email", {"body": "yes, I'm coming", "…": "Tom"})]),
        (
            "Send an email to anna@example.com with subject Lunch saying are you free at noon",
            [("send_email", {"to": "anna@example.com", "subject": "Lunch", "body": "are you free at noon"})],
        ),
        (
            "Put a 30 minute meeting with Bob in my calendar on Wednesday at 11:00",
            [("create_event", {"title": "meeting with Bob", "start": "2026-11-18T11:00", "duration_minutes": 30})],
        ),
        (
            "Add gym on Monday at 6pm and dinner with Paul on Tuesday at 7:30pm",
            [
                ("create_event", {"title": "gym", "start": "2026-11-16T18:00"}),
                ("create_event", {"title": "dinner with Paul", "start": "2026-11-17T19:30"}),
            ],
        ),
        ("When am I free on Tuesday?", [("find_free_time", {"day": "2026-11-17"})]),
        (
            "I'd like to take vacation from December 21 to December 31",
            [("request_leave", {"kind": "vacation", "first_day": "2026-12-21", "last_day": "2026-12-31"})],
        ),
        (
            "Close tickets 501 and 503",
            [
                ("set_ticket_status", {"ticket_number": 501, "status": "closed"}),
                ("set_ticket_status", {"ticket_number": 503, "status": "closed"}),
            ],
        ),
        ("What's happening with SF10023?", [("track_parcel", {"parcel": "SF10023"})]),
        (
            "find flights from Oslo to Rome on Friday",
            [("search_flights", {"origin": "Oslo", "destination": "Rome", "day": "2026-11-20"})],
        ),
        (
            "Will it rain in London today and in Berlin tomorrow?",
            [
                ("get_weather", {"city": "London", "day": "2026-11-15"}),
                ("get_weather", {"city": "Berlin", "day": "2026-11-16"}),
            ],
        ),
        ("what time is it in Tokyo?", [("get_current_time", {"timezone": "Asia/Tokyo"})]),
        (
            "add a comment to issue #12 in acme/webshop: I can reproduce this",
            [
                (
                    "add_issue_comment",
                    {"owner": "acme", "repo": "webshop", "issue_number": 12, "body": "I can reproduce this"},
                )
            ],
        ),
        ("What is 15 * 27?", [("calculate", {"expression": "15 * 27"})]),
        (
            "I need two monitors and a headset for my desk",
            [
                ("request_equipment", {"item": "monitor", "quantity": 2}),
                ("request_equipment", {"item": "headset", "quantity": 1}),
            ],
        ),
    ],
)
def test_english(message: str, wanted: list[tuple[str, dict[str, object]]]) -> None:
    assert [told(one) for one in asked(message, tuple(one.definition for one in ENGLISH))] == wanted


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("我的余额是多少", [("get_balance", dict[str, str]())]),
        ("查一下信用卡余额", [("get_balance", {"account": "信用卡"})]),
        ("添加收款人赵敏，卡号6222021234567890", [("add_payee", {"name": "赵敏", "card_number": "6222021234567890"})]),
        ("批一下周婷的年假", [("approve_request", {"…": "周婷"})]),
        ("帮我找上海的酒店", [("search_hotels", {"city": "上海"})]),
        ("杭州有四星级酒店吗", [("search_hotels", {"city": "杭州", "stars": 4})]),
    ],
)
def test_chinese(message: str, wanted: list[tuple[str, dict[str, object]]]) -> None:
    assert [told(one) for one in asked(message, tuple(one.definition for one in CHINESE))] == wanted


@tool
def cancel_order(order: Annotated[str, Field(pattern=r"^A\d{4}$")]) -> None:
    """Cancel an order."""


@tool
def delete_file(path: str) -> None:
    """Delete a file."""


@tool(idempotent=True)
def reset_database() -> None:
    """Reset the database."""


@tool(idempotent=True)
def transfer_money(to_account: int, amount: float) -> None:
    """Transfer money to an account."""


@tool
def set_timer(minutes: int) -> None:
    """Start a countdown timer."""


@tool
def restart_server(name: str) -> None:
    """Restart a server."""


@tool(read_only=True)
def list_events(time_min: datetime | None = None, time_max: datetime | None = None) -> None:
    """List the events of the calendar."""


@tool(read_only=True)
def search_events(query: str) -> None:
    """Search the events of the calendar by text."""


@tool(sources={"event_id": "search_events"})
def update_event(event_id: str, title: str | None = None) -> None:
    """Change an event of the calendar."""


@tool(read_only=True)
def find_medicine(name: str) -> None:
    """Find a medicine in the pharmacy."""


@tool(read_only=True)
def get_rows(table_name: str, limit: int = 10) -> None:
    """Get rows of a table."""


READING = (list_events, search_events, update_event, find_medicine, get_rows, search_emails)


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (
            "what's on my calendar tomorrow?",
            [("list_events", {"time_min": "2026-11-16T00:00", "time_max": "2026-11-16T23:59"})],
        ),
        ("rename the team standup to Daily sync", [("update_event", {"title": "Daily sync", "…": "team standup"})]),
        ("show me the first 2 rows of products", [("get_rows", {"table_name": "products", "limit": 2})]),
        ("show mails that are not unread", [("search_emails", {"unread": False})]),
    ],
)
def test_reading(message: str, wanted: list[tuple[str, dict[str, object]]]) -> None:
    assert [told(one) for one in asked(message, tuple(one.definition for one in READING))] == wanted


def test_the_name_that_is_looked_for_is_no_title() -> None:
    (request,) = asked("Do you have aspirin?", (find_medicine.definition,))
    assert told(request) == ("find_medicine", {"name": "aspirin"})


def test_what_changes_something_waits_for_what_was_asked_for_before_it() -> None:
    requests = asked("Lock the front door and then restart web1", tuple(one.definition for one in ACTING))
    assert [told(one) for one in requests] == [
        ("lock_door", {"door": "front"}),
        ("restart_server", {"name": "web1"}),
    ]
    assert advance(requests, ()) == ([Wanted("lock_door", {"door": "front"})], [])


ACTING = (switch_light, lock_door, cancel_order, delete_file, reset_database, transfer_money, set_timer, restart_server)


@pytest.mark.parametrize(
    "message",
    [
        "Don't lock the front door",
        "Please do not turn off the kitchen light",
        "Never turn off the kitchen light",
        "I don't want you to turn off the kitchen light",
        "No need to turn off the kitchen light",
        "Turn off all lights except the kitchen",
        "Turn off every light but the office one",
        "Delete all files except notes.txt",
        "Where is order A1234?",
        "Can I still cancel order A1234?",
        "Order A1234 was cancelled",
        "A1234",
        "I turned off the kitchen light",
        "My wife turned off the kitchen light",
        "The kitchen light is off",
        "I accidentally deleted notes.txt",
        "It would be bad to delete notes.txt",
        "Can I delete notes.txt?",
        "Would you delete notes.txt if you were me?",
        "Could you tell me whether the front door is locked?",
        "If I turn off the kitchen light, will the fridge stop?",
        "When I leave, turn off the kitchen light",
        "Turn off the kitchen light in 10 minutes",
        "Turn off the kitchen light tomorrow at 8",
        "Remind me to turn off the kitchen light",
        "Unlock the front door",
        "The database is slow",
        "the database",
        "send 500 to 12345",
        "transfer half of 500 to account 12345",
        "Turn the kitchen light on and off",
        "别关厨房的灯",
    ],
)
def test_nothing_is_changed_that_nobody_asked_for(message: str) -> None:
    requests = asked(message, tuple(one.definition for one in ACTING))
    assert [told(one) for one in requests if one.missing is None] == []


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("delete a.txt and b.txt", [("delete_file", {"path": "a.txt"}), ("delete_file", {"path": "b.txt"})]),
        ("Don't cancel A1234, cancel A1235", [("cancel_order", {"order": "A1235"})]),
        ("transfer 1,500 euros to account 12", [("transfer_money", {"amount": 1500, "to_account": 12})]),
        ("transfer $1,000,000 to account 12", [("transfer_money", {"amount": 1_000_000, "to_account": 12})]),
        ("transfer two thousand euros to account 12", [("transfer_money", {"amount": 2000, "to_account": 12})]),
        ("transfer 1.500,50 EUR to account 12", [("transfer_money", {"amount": 1500.5, "to_account": 12})]),
        ("set a timer for 20 minutes", [("set_timer", {"minutes": 20})]),
        ("Reset the database", [("reset_database", dict[str, object]())]),
    ],
)
def test_what_is_asked_for_is_done_as_it_is_said(message: str, wanted: list[tuple[str, dict[str, object]]]) -> None:
    assert [told(one) for one in asked(message, tuple(one.definition for one in ACTING))] == wanted


def test_only_a_tool_that_says_so_is_taken_to_read() -> None:
    """An idempotent tool may be repeated; it may still change something."""
    kinds = {"read_only": Tool(name="archive", read_only=True), "idempotent": Tool(name="archive", idempotent=True)}
    assert {name: profile_of(kind, "0a").reads for name, kind in kinds.items()} == {
        "read_only": True,
        "idempotent": False,
    }


def test_a_unit_of_another_kind_is_not_taken() -> None:
    assert all(one.missing for one in asked("set a timer for 2 hours", (set_timer.definition,)))
    assert [told(one) for one in asked("set a timer for 2 minutes", (set_timer.definition,))] == [
        ("set_timer", {"minutes": 2})
    ]


@pytest.mark.parametrize(
    "pattern", [r"^(a+)+$", r"^(\w|\d)*x$", r"^.*.*.*=$", "a?" * 9 + "a" * 9, "^[a-z]{0,99}[a-z]{0,99}[a-z]{0,99}$"]
)
def test_a_tools_pattern_that_may_take_its_time_is_not_tried(pattern: str) -> None:
    assert fits(pattern, "a" * 100 + "!")
    assert shape_of(pattern) is None


@pytest.mark.parametrize("pattern", ["(", r"^\d{99999999999}$", "x" * 5000])
def test_a_tools_pattern_that_cannot_be_read_allows_all(pattern: str) -> None:
    assert fits(pattern, "anything")


def test_a_pattern_for_codes_is_searched_for() -> None:
    shape = shape_of(r"^T-\d{4}$")
    assert shape is not None
    assert shape.search("what about T-1042?")
