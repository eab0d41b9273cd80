"""Without a template the tools are found by words, and filled only with what a message shows to be of their type."""

from datetime import date, datetime
from typing import Annotated, Literal

import pytest
from pydantic import Field

from offline.talk import OfflineConversation, ToolAndArguments
from toolyard import tool

ZONES = Literal["Cold store", "Loading dock", "Yard"]


@tool
def transfer_money(amount: float, recipient: str) -> str:
    "Transfer money to a recipient."
    return "sent"


@tool
def delete_invoice(invoice_id: str) -> str:
    "Delete an invoice."
    return "deleted"


@tool
def move_pallet(pallet: Annotated[str, Field(pattern=r"^P-\d{4}$")], zone: ZONES) -> str:
    "Move a pallet to another zone."
    return "moved"


@tool
def invite_guest(email: Annotated[str, Field(json_schema_extra={"format": "email"})]) -> str:
    "Invite a guest by e-mail."
    return "invited"


@tool
def archive_website(url: Annotated[str, Field(json_schema_extra={"format": "uri"})]) -> str:
    "Archive a website."
    return "archived"


@tool
def copy_file(source: str, destination: str) -> str:
    "Copy a file."
    return "copied"


@tool
def set_thermostat(degrees: float, room: Literal["kitchen", "bedroom"]) -> str:
    "Set the temperature of the thermostat in a room."
    return "set"


@tool
def schedule_inspection(start: datetime) -> str:
    "Schedule an inspection."
    return "scheduled"


@tool
def set_deadline(due: date) -> str:
    "Set the deadline of the project."
    return "set"


@tool
def write_note(text: str) -> str:
    "Write a note."
    return "written"


@tool(read_only=True)
def show_weather(city: str) -> dict[str, object]:
    "Show the weather of a city."
    return {"city": city, "weather": "sunny"}


@tool(read_only=True)
def count_birds() -> int:
    "Count the birds."
    return 7


TOOLS = (
    transfer_money, delete_invoice, move_pallet, invite_guest, archive_website, copy_file, set_thermostat,
    schedule_inspection, set_deadline, write_note, show_weather, count_birds,
)  # fmt: skip


def list_proposed(message: str) -> list[ToolAndArguments]:
    talk = OfflineConversation(*TOOLS)
    talk.say(message)
    assert talk.ran_calls == []
    return talk.proposed_calls


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("transfer 1,024.50 to the recipient “Anna”", {"amount": 1024.5, "recipient": "Anna"}),
        ("I'd like you to delete invoice INV-4711", {"invoice_id": "INV-4711"}),
        ("Bob wants me to delete invoice 4711", {"invoice_id": "4711"}),
        ("the pallet P-1042 should move to the loading dock", {"pallet": "P-1042", "zone": "Loading dock"}),
        ("invite the guest ann.b@example.org, please", {"email": "ann.b@example.org"}),
        ("archive the website https://example.org/a?b=c.", {"url": "https://example.org/a?b=c"}),
        ("copy the file notes/a.txt to /tmp/b.txt", {"source": "notes/a.txt", "destination": "/tmp/b.txt"}),
        ("set the kitchen thermostat to 21.5 degrees", {"degrees": 21.5, "room": "kitchen"}),
        ("schedule an inspection for tomorrow at 3pm", {"start": "2026-11-16T15:00"}),
        ("set the project deadline to 2026-12-01", {"due": "2026-12-01"}),
        ("write a note: never call Bob", {"text": "never call Bob"}),
    ],
)
def test_what_is_of_a_parameters_type_fills_it_and_the_call_is_proposed(
    message: str, arguments: dict[str, object]
) -> None:
    ((_, filled),) = list_proposed(message)
    assert filled == arguments


@pytest.mark.parametrize(
    "message",
    [
        "the pallet P-10425 should move to the yard",
        "set the thermostat in the kitchen or bedroom to 21 degrees",
        "set the kitchen thermostat to 20 or 21 degrees",
        "delete invoice A-1 or A-2",
        "delete invoice A-1 or the other",
        "invite the guest ann@example",
        "transfer 1,02 to “Anna”",
        "set the kitchen thermostat to 1.234.567 degrees",
    ],
)
def test_what_is_ambiguous_or_no_value_is_asked_for(message: str) -> None:
    talk = OfflineConversation(*TOOLS)
    step = talk.say(message)
    assert talk.ran_calls == talk.proposed_calls == []
    assert step.text


@pytest.mark.parametrize("number", ["4711", "1,024", "007", "3.5", "-12", "1024.75", "99999999999999"])
def test_a_number_is_taken_whole_or_not_at_all(number: str) -> None:
    for _, arguments in list_proposed(f"transfer {number} to the recipient “Anna”"):
        assert arguments["amount"] == float(number.replace(",", ""))
    for _, arguments in list_proposed(f"delete invoice {number}"):
        assert arguments["invoice_id"] == number


@pytest.mark.parametrize("message", ["write a note: not today", "write a note that nobody came", "write a note 不要来"])
def test_a_negation_is_never_dropped(message: str) -> None:
    ((_, arguments),) = list_proposed(message)
    assert any(word in str(arguments["text"]) for word in ("not", "nobody", "不要"))


def test_what_only_reads_and_clearly_wins_runs() -> None:
    talk = OfflineConversation(*TOOLS)
    assert "sunny" in talk.say("what is the weather in Rome").text
    assert talk.ran_calls == [("show_weather", {"city": "Rome"})]
    assert "7" in talk.say("count the birds").text


def test_up_to_three_tools_are_offered_when_none_clearly_wins() -> None:
    @tool
    def cancel_order(number: int) -> str:
        "Cancel an order."
        return "cancelled"

    @tool
    def ship_order(number: int) -> str:
        "Ship an order."
        return "shipped"

    @tool
    def print_order(number: int) -> str:
        "Print an order."
        return "printed"

    @tool
    def pack_order(number: int) -> str:
        "Pack an order."
        return "packed"

    talk = OfflineConversation(cancel_order, ship_order, print_order, pack_order)
    step = talk.say("order 7")
    assert talk.ran_calls == talk.proposed_calls == [] and len(step.suggestions) == 3
    assert [line[:3] for line in step.text.splitlines()[1:4]] == ["1. ", "2. ", "3. "]
    chosen = step.suggestions[1].label
    talk.say("2")
    assert talk.proposed_calls == [(chosen.lower().replace(" ", "_"), {"number": 7})]
