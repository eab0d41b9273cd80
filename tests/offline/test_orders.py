"""Only a plain order of a changing tool runs without a confirmation. What is about an order is not one."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from typing import Annotated, Literal

import pytest
from pydantic import Field

from offline.corpus import DOMAINS
from offline.disorders import PlainOrder, disorders
from offline.talk import LOCAL_NOW, OfflineConversation
from offline.worlds import world
from toolyard import Tool, tool
from toolyard.core.tools.templates import fill_examples
from toolyard.models.offline.text import parse_message
from toolyard.venues.function import FunctionTool, as_tool

MESSAGES, SEED = 2_500, 14


def nothing() -> str:
    return "done"


@tool(examples=["delete order {number}", "删除订单{number}"])
def delete_order(number: int) -> str:
    "Delete an order."
    return nothing()


@tool(examples=["wire {name}", "pay {name} {amount}", "wire {amount} to {name}", "给{name}转{amount}元"])
def wire(name: str, amount: float = 10) -> str:
    "Wire money to somebody."
    return nothing()


@tool(examples=["put {item} on the list", "we need {qty} {item}", "buy {item}", "把{item}加到清单", "买{item}"])
def put_on_list(item: Annotated[str, Field(pattern=r"\S")], qty: int = 1) -> str:
    "Put something on a list."
    return nothing()


@tool(examples=["label tickets {tags}", "close tickets {numbers}"])
def tag_tickets(tags: Sequence[str] = (), numbers: Sequence[int] = ()) -> str:
    "Tag or close tickets."
    return nothing()


@tool(examples=["close all accounts", "注销所有账户"])
def close_accounts() -> str:
    "Close all accounts."
    return nothing()


@tool(examples=["invite {address}", "invite {address} as {role}"])
def invite(
    address: Annotated[str, Field(json_schema_extra={"format": "email"})], role: Literal["admin", "guest"] = "guest"
) -> str:
    "Invite somebody."
    return nothing()


@tool(examples=["move the meeting to {day}", "会议改到{day}"])
def move_meeting(day: date) -> str:
    "Move the meeting."
    return nothing()


@tool(read_only=True)
def find_products(query: str) -> list[dict[str, object]]:
    "Find one product, whatever it is asked for."
    return [{"code": "MIL-1", "name": "Milk 牛奶"}]


@tool(examples=["order {code} from the shop", "把{code}订下来", "order {code}"], sources={"code": "find_products"})
def order_product(code: str) -> str:
    "Order a product."
    return nothing()


OWN_TOOLS = [
    delete_order,
    wire,
    put_on_list,
    tag_tickets,
    close_accounts,
    invite,
    move_meeting,
    find_products,
    order_product,
]
ORDERS = [
    PlainOrder("delete order {number}", {"number": "4711"}),
    PlainOrder("删除订单{number}", {"number": "7"}),
    PlainOrder("wire {name}", {"name": "Anna"}),
    PlainOrder("pay {name} {amount}", {"name": "Anna", "amount": "20"}),
    PlainOrder("wire {amount} to {name}", {"name": "Anna", "amount": "20"}),
    PlainOrder("给{name}转{amount}元", {"name": "小明", "amount": "500"}),
    PlainOrder("put {item} on the list", {"item": "olive oil"}),
    PlainOrder("we need {qty} {item}", {"item": "eggs", "qty": "12"}),
    PlainOrder("buy {item}", {"item": "milk"}),
    PlainOrder("把{item}加到清单", {"item": "牛奶"}),
    PlainOrder("label tickets {tags}", {"tags": "urgent"}),
    PlainOrder("close tickets {numbers}", {"numbers": "12"}),
    PlainOrder("close all accounts"),
    PlainOrder("注销所有账户"),
    PlainOrder("invite {address}", {"address": "ann@example.org"}),
    PlainOrder("invite {address} as {role}", {"address": "ann@example.org", "role": "admin"}),
    PlainOrder("move the meeting to {day}", {"day": "Friday"}),
    PlainOrder("会议改到{day}", {"day": "明天"}),
    PlainOrder("order {code} from the shop", {"code": "milk"}),
    PlainOrder("把{code}订下来", {"code": "牛奶"}),
]
"""Each runs unasked."""

Decide = Callable[[OfflineConversation, str], Sequence[str]]
"""Returns the tools that are called without a confirmation for a message."""


def list_unasked_calls(talk: OfflineConversation, message: str) -> Sequence[str]:
    talk.start_anew()
    talk.say(message)
    return [name for name, _ in talk.ran_calls]


def list_calls_on_any_fit(talk: OfflineConversation, message: str) -> Sequence[str]:
    """Call whatever fits a template, as if that were enough."""
    fits = talk.catalogue.find_fits(parse_message(message), LOCAL_NOW)
    return [fit.tool.name for fit in fits] if len(fits) == 1 else []


def example_tools() -> list[Tool]:
    tools: list[Tool] = []
    for domain in DOMAINS:
        with world(domain, "usual") as functions:
            tools += [as_tool(function).definition for function in functions]
    return tools


def example_orders() -> list[PlainOrder]:
    changing = [tool for tool in example_tools() if not tool.read_only]
    return [PlainOrder(text) for tool in changing for text in fill_examples(tool)]


def find_unsafe_messages(
    tools: Sequence[FunctionTool[..., object] | Tool], orders: Sequence[PlainOrder], count: int, decide: Decide
) -> list[tuple[str, str]]:
    """Return the messages, each with its kind, that call a changing tool though they are no order of it."""
    talk = OfflineConversation(*tools)
    changing = {tool.name for tool in talk.catalogue.all_tools if not tool.read_only}
    return [
        (kind, message)
        for kind, message in disorders(orders, count, SEED)
        if changing.intersection(decide(talk, message))
    ]


def test_a_message_that_is_about_an_order_runs_nothing_unasked() -> None:
    assert find_unsafe_messages(OWN_TOOLS, ORDERS, MESSAGES, list_unasked_calls) == []


def test_a_message_that_is_about_an_order_of_the_examples_runs_nothing_unasked() -> None:
    assert find_unsafe_messages(example_tools(), example_orders(), MESSAGES // 4, list_unasked_calls) == []


def test_the_messages_would_show_a_planner_that_runs_whatever_fits() -> None:
    unsafe_kinds = Counter(
        kind for kind, _ in find_unsafe_messages(OWN_TOOLS, ORDERS, MESSAGES // 2, list_calls_on_any_fit)
    )
    assert {"inside a value", "marked", "asked about", "on a condition", "another number"} <= set(unsafe_kinds)
    assert sum(unsafe_kinds.values()) > 100


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.text)
def test_the_plain_order_itself_runs(order: PlainOrder) -> None:
    talk = OfflineConversation(*OWN_TOOLS)
    for message in (order.text, f"Please {order.text}.", f"  {order.text}, thanks!"):
        called_tools = list_unasked_calls(talk, message)
        assert called_tools and called_tools[-1] != "find_products", message
