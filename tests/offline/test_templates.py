"""A message that fits one of a tool's examples becomes that call; it runs unasked only if nothing is left in doubt."""

from datetime import date, datetime
from time import process_time
from typing import Annotated, Literal

import pytest
from pydantic import Field

from offline.talk import LOCAL_NOW, OfflineConversation, ToolAndArguments
from toolyard import Yard, tool
from toolyard.core.errors import Misconfigured
from toolyard.models.offline.text import parse_message

Priority = Literal["high", "low", "not urgent"]


@tool(
    examples=[
        "add {item} to groceries",
        "we need {qty} {item}",
        "buy {item}",
        "把{item}加到购物单",
        "买{qty}个{item}",
    ]
)
def add(item: str, qty: Annotated[int, Field(ge=1, le=99)] = 1) -> str:
    "Put an item on the list."
    return f"{item} is on the list"


@tool(examples=["delete order {number}", "删除订单{number}"])
def delete_order(number: int) -> str:
    "Delete an order."
    return f"order {number} is gone"


@tool(examples=["new ticket {title} with priority {priority}", "remind me on {day} of {title}"])
def create_ticket(title: str, priority: Priority = "low", day: date | None = None) -> str:
    "Open a ticket."
    return "opened"


@tool(examples=["book {room} at {start}", "dim the lights to {level}", "lights {on}"])
def book(room: str = "", start: datetime | None = None, level: float = 1.0, on: bool = False) -> str:
    "Book a room, or set its lights."
    return "booked"


@tool(read_only=True, examples=["find {query}", "do you have {query}?", "有没有{query}"])
def find(query: str) -> list[dict[str, object]]:
    "Find products."
    products = {"M-1": "Whole milk", "M-2": "Oat milk", "B-1": "Rye bread", "E-1": "鸡蛋"}
    return [{"code": code, "name": name} for code, name in products.items() if query.casefold() in name.casefold()]


@tool(
    examples=["order {code} from the shop", "put {qty} {code} in my basket", "把{code}放进篮子"],
    sources={"code": "find"},
)
def order(code: str, qty: int = 1) -> str:
    "Order a product."
    return f"{code} ordered"


TOOLS = (add, delete_order, create_ticket, book, find, order)


def list_ran(message: str) -> list[ToolAndArguments]:
    talk = OfflineConversation(*TOOLS)
    talk.say(message)
    return talk.ran_calls


def list_proposed(message: str) -> list[ToolAndArguments]:
    talk = OfflineConversation(*TOOLS)
    talk.say(message)
    assert [call for call in talk.ran_calls if call[0] != "find"] == []
    return talk.proposed_calls


def add_calls(*names: str) -> list[ToolAndArguments]:
    return [("add", {"item": name}) for name in names]


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        ("add milk to groceries", add_calls("milk")),
        ("Please ADD the milk to groceries. Thanks!", add_calls("milk")),
        ("add olive oil to groceries", add_calls("olive oil")),
        ('add "olive oil if it is cheap" to groceries', add_calls("olive oil if it is cheap")),
        ("add milk, eggs and rye bread to groceries", add_calls("milk", "eggs", "rye bread")),
        ("buy milk", add_calls("milk")),
        ("we need 3 lemons", [("add", {"qty": 3, "item": "lemons"})]),
        ("把牛奶加到购物单", add_calls("牛奶")),
        ("请把牛奶和鸡蛋加到购物单，谢谢", add_calls("牛奶", "鸡蛋")),
        ("delete order 4711", [("delete_order", {"number": 4711})]),
        ("delete order #4711", [("delete_order", {"number": 4711})]),
        ("delete order 1,024", [("delete_order", {"number": 1024})]),
        ("删除订单7。", [("delete_order", {"number": 7})]),
        ("dim the lights to 0.5", [("book", {"level": 0.5})]),
        ("lights off", [("book", {"on": False})]),
        ("book Athens at tomorrow 3pm", [("book", {"room": "Athens", "start": "2026-11-16T15:00"})]),
        (
            "new ticket printer with priority NOT-URGENT",
            [("create_ticket", {"title": "printer", "priority": "not urgent"})],
        ),
        ("new ticket printer with priority high", [("create_ticket", {"title": "printer", "priority": "high"})]),
        ("remind me on Friday of lunch", [("create_ticket", {"day": "2026-11-20", "title": "lunch"})]),
    ],
)
def test_a_plain_order_runs(message: str, calls: list[ToolAndArguments]) -> None:
    assert list_ran(message) == calls


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        ("add milk to groceries?", add_calls("milk")),
        ("add milk to groceries ❌", add_calls("milk")),
        ("add whole milk from Bob to groceries", add_calls("whole milk from Bob")),
        ("buy olive oil", add_calls("olive oil")),
        ("buy milk and eggs", add_calls("milk", "eggs")),
        ("买3个牛奶", [("add", {"qty": 3, "item": "牛奶"})]),
        ("把高筋面粉加到购物单", add_calls("高筋面粉")),
        ("delete order $7", [("delete_order", {"number": 7})]),
        ("remind me on after Friday of lunch", [("create_ticket", {"day": "2026-11-20", "title": "lunch"})]),
    ],
)
def test_what_leaves_a_doubt_is_proposed(message: str, calls: list[ToolAndArguments]) -> None:
    assert list_proposed(message) == calls


@pytest.mark.parametrize(
    "message",
    [
        "delete order seven hundred",
        "delete order 1.5",
        "delete order 7-8",
        "delete order 7 8",
        "delete order 1e5",
        "delete order 12,34",
        "we need 0 lemons",
        "we need 100 lemons",
        "dim the lights to much",
        "lights purple",
        "new ticket printer with priority medium",
        "remind me on 25 of lunch",
    ],
)
def test_what_is_no_value_of_its_slot_does_not_fit(message: str) -> None:
    assert list_ran(message) == []


def test_eight_of_a_list_are_taken_and_nine_are_none() -> None:
    names = ["milk", "eggs", "tea", "rice", "salt", "figs", "oats", "corn", "peas"]
    assert len(list_ran(f"add {', '.join(names[:8])} to groceries")) == 8
    assert list_ran(f"add {', '.join(names)} to groceries") == []


def test_two_tools_that_fit_are_put_as_a_choice() -> None:
    @tool(examples=["ship {thing}"])
    def ship(thing: str) -> str:
        "Send a thing away."
        return "sent"

    @tool(examples=["ship {what}"])
    def load(what: str) -> str:
        "Load something."
        return "loaded"

    talk = OfflineConversation(ship, load)
    step = talk.say("ship crates")
    assert talk.ran_calls == [] and [suggestion.text for suggestion in step.suggestions] == ["1", "2"]
    talk.say("2")
    assert talk.ran_calls == [] and talk.proposed_calls == [("load", {"what": "crates"})]


def test_one_result_of_the_source_fills_the_parameter() -> None:
    assert list_ran("order rye bread from the shop") == [("find", {"query": "rye bread"}), ("order", {"code": "B-1"})]
    assert list_ran("把鸡蛋放进篮子") == [("find", {"query": "鸡蛋"}), ("order", {"code": "E-1"})]


def test_several_results_of_the_source_are_put_as_a_choice_and_a_number_or_a_label_takes_one() -> None:
    for answer in ("2", "M-2, Oat milk"):
        talk = OfflineConversation(*TOOLS)
        step = talk.say("order milk from the shop")
        assert [suggestion.label for suggestion in step.suggestions] == ["M-1, Whole milk", "M-2, Oat milk"]
        talk.say(answer)
        assert talk.ran_calls == [("order", {"code": "M-2"})]


def test_nothing_at_the_source_is_said_and_nothing_runs() -> None:
    talk = OfflineConversation(*TOOLS)
    assert "caviar" in talk.say("order caviar from the shop").text
    assert talk.ran_calls == [("find", {"query": "caviar"})] and talk.proposed_calls == []


def test_a_result_that_does_not_speak_of_the_words_is_proposed() -> None:
    @tool(read_only=True)
    def lookup(query: str) -> list[dict[str, object]]:
        "Look up a product."
        return [{"code": "X-1", "name": "Caviar"}]

    @tool(examples=["order {code} from the shop"], sources={"code": "lookup"})
    def order_one(code: str) -> str:
        "Order a product."
        return "ordered"

    talk = OfflineConversation(lookup, order_one)
    talk.say("order milk from the shop")
    assert talk.ran_calls == [("lookup", {"query": "milk"})] and talk.proposed_calls == [("order_one", {"code": "X-1"})]
    talk.say("order caviar from the shop")
    assert talk.ran_calls[-1] == ("order_one", {"code": "X-1"})


def test_an_example_that_needs_more_than_it_says_asks_for_it() -> None:
    @tool(examples=["delete an order"])
    def delete(number: int) -> str:
        "Delete an order."
        return f"order {number} is gone"

    for answer, calls in (("7", [("delete", {"number": 7})]), ("not 7", []), ("7?", []), ("7 if Bob agrees", [])):
        talk = OfflineConversation(delete)
        assert "number" in talk.say("delete an order").text
        talk.say(answer)
        assert talk.ran_calls == calls


def test_a_message_of_more_than_2000_characters_fits_nothing() -> None:
    assert list_ran("add milk to groceries" + " " * 1_900) == add_calls("milk")
    assert list_ran("add milk to groceries" + " " * 2_000 + "is what Bob said") == []
    assert list_ran("add milk to groceries" + " " * 2_000) == []


def test_matching_takes_time_in_proportion_to_the_message() -> None:
    @tool(examples=["{a} to {b} to {c} to {d}"])
    def move(a: str, b: str, c: str, d: str) -> str:
        "Move something."
        return "moved"

    catalogue = OfflineConversation(move).catalogue

    def measure_cpu_s(words: int) -> float:
        text = parse_message("x to " * words)
        began = process_time()
        for _ in range(5):
            catalogue.find_fits(text, LOCAL_NOW)
        return process_time() - began

    measure_cpu_s(10)
    assert measure_cpu_s(360) < 40 * measure_cpu_s(90) + 0.05


async def test_a_slot_that_is_no_parameter_is_refused_at_the_start() -> None:
    @tool(examples=["ship {thing} to {place}"])
    def ship(thing: str) -> str:
        "Send a thing away."
        return "sent"

    async def start() -> None:
        async with Yard(tools=[ship], model="toolyard:offline"):
            pass

    with pytest.raises(Misconfigured, match="'ship': its examples have a slot 'place'"):
        await start()
