"""What is open belongs to the next message, is kept as an opaque item and survives a restart; what is said is plain."""

import pytest
from msgspec.structs import replace

from offline.talk import OfflineConversation
from toolyard import tool
from toolyard.core.items import Reasoning
from toolyard.models.offline.wording import MAX_TOOLS, SENTENCES


@tool(examples=["delete order {number}"])
def delete_order(number: int) -> str:
    "Delete an order for good."
    if number == 13:
        raise ValueError("order 13 is locked")
    return f"order {number} is gone"


@tool
def create_parcel(recipient: str, weight: float, express: bool) -> dict[str, object]:
    "Create a parcel."
    return {"ok": True, "parcel": 9, "recipient": recipient}


@tool(read_only=True, examples=["show my orders", "显示订单"])
def list_orders() -> list[dict[str, object]]:
    "List the orders."
    return [{"number": 6, "customer": "Ann | Co", "lines": [1, 2]}, {"number": 7, "customer": "Bob", "paid": True}]


@tool(read_only=True, examples=["show the stock"])
def show_stock() -> dict[str, object]:
    "Show the stock."
    return {"ok": True, "total": 3.0, "by_kind": {"flour": {"kg": 150}, "milk": {"l": 60}}, "note": None}


TOOLS = (delete_order, create_parcel, list_orders, show_stock)
NO_MODEL = SENTENCES["no_model"][0]


@pytest.mark.parametrize("answer", ["yes", "Yes, please!", "OK", "do it", "好的", "是的。", "确认"])
def test_a_yes_runs_what_was_proposed(answer: str) -> None:
    talk = OfflineConversation(*TOOLS)
    talk.say("Bob wants me to delete order 7")
    assert talk.proposed_calls == [("delete_order", {"number": 7})]
    assert "order 7 is gone" in talk.say(answer).text
    assert talk.ran_calls == [("delete_order", {"number": 7})]


@pytest.mark.parametrize(
    "answer",
    ["no", "cancel", "不要", "sure?", "yes?", '"yes"', "yes 🚫", "yes if Bob agrees", "yes or no", "hm", "8", ""],
)
def test_anything_else_runs_nothing_and_a_later_yes_neither(answer: str) -> None:
    talk = OfflineConversation(*TOOLS)
    talk.say("Bob wants me to delete order 7")
    talk.say(answer)
    assert talk.ran_calls == []
    talk.say("yes")
    assert talk.ran_calls == []


def test_another_order_takes_the_place_of_what_is_open() -> None:
    talk = OfflineConversation(*TOOLS)
    talk.say("delete order 7?")
    talk.say("delete order 8")
    assert talk.ran_calls == [("delete_order", {"number": 8})]


def test_missing_parameters_are_asked_for_one_by_one() -> None:
    talk = OfflineConversation(*TOOLS)
    assert "recipient" in talk.say("create a parcel").text
    assert "weight" in talk.say("Anna").text
    step = talk.say("2.5")
    assert "express" in step.text and [suggestion.text for suggestion in step.suggestions] == ["on", "off"]
    talk.say("off")
    assert talk.ran_calls == []
    assert talk.proposed_calls == [("create_parcel", {"recipient": "Anna", "weight": 2.5, "express": False})]
    assert "parcel 9" in talk.say("yes").text


def test_a_question_that_is_open_is_left_by_an_order_or_a_no() -> None:
    for answer, runs in (("delete order 8", [("delete_order", {"number": 8})]), ("never mind", [])):
        talk = OfflineConversation(*TOOLS)
        talk.say("create a parcel")
        talk.say(answer)
        assert talk.ran_calls == runs and talk.proposed_calls == []


def test_what_is_open_survives_a_restart_and_is_never_read_from_sentences() -> None:
    before = OfflineConversation(*TOOLS)
    before.say("create a parcel")
    after = OfflineConversation(*TOOLS, items=before.items)
    assert "weight" in after.say("Anna").text
    assert all(item.provider == "offline" and item.text == "" for item in after.state)
    without = OfflineConversation(*TOOLS, items=[item for item in before.items if item not in before.state])
    assert "weight" not in without.say("Anna").text


def test_a_state_that_cannot_be_read_is_none() -> None:
    before = OfflineConversation(*TOOLS)
    before.say("create a parcel")
    items = [replace(item, signature="{") if isinstance(item, Reasoning) else item for item in before.items]
    assert OfflineConversation(*TOOLS, items=items).say("Anna").text


def test_it_says_once_that_it_is_no_language_model() -> None:
    talk = OfflineConversation(*TOOLS)
    texts = [talk.say(message).text for message in ("show my orders", "hello", "delete order 7")]
    assert [NO_MODEL in text for text in texts] == [True, False, False]
    assert SENTENCES["no_model"][1] in OfflineConversation(*TOOLS).say("显示订单").text


def test_rows_are_a_table_and_nested_values_are_words() -> None:
    lines = OfflineConversation(*TOOLS).say("show my orders").text.splitlines()
    assert lines[:4] == [
        "| number | customer | lines | paid |",
        "| --- | --- | --- | --- |",
        "| 6 | Ann \\| Co | 1, 2 |  |",
        "| 7 | Bob |  | true |",
    ]
    text = OfflineConversation(*TOOLS).say("show the stock").text
    assert "total 3." in text and "- flour: kg 150" in text and "{" not in text


def test_a_failure_is_told_in_the_tools_own_words() -> None:
    assert "did not work: order 13 is locked" in OfflineConversation(*TOOLS).say("delete order 13").text


@pytest.mark.parametrize("message", ["hello", "what can you do?", "", "你好"])
def test_a_greeting_is_answered_with_the_real_tools_and_an_example_each(message: str) -> None:
    text = OfflineConversation(*TOOLS).say(message).text
    assert all(name in text for name in ("Delete order", "Create parcel", "List orders", "Show stock"))
    assert "delete order 2" in text and "{" not in text


def test_however_many_tools_there_are_the_list_ends() -> None:
    def make_tool(number: int):
        @tool(name=f"tool_{number}")
        def do_something() -> str:
            "Do something."
            return "done"

        return do_something

    text = OfflineConversation(*(make_tool(number) for number in range(MAX_TOOLS + 5))).say("hello").text
    assert f"{5} more" in text and len(text.splitlines()) < MAX_TOOLS + 8


def test_without_tools_it_says_so() -> None:
    assert SENTENCES["no_tools"][0] in OfflineConversation().say("add milk").text
