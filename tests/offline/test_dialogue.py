"""What is open belongs to the next message, is kept as an opaque item and survives a restart; what is said is plain."""

from typing import TypedDict

import pytest
from msgspec.structs import replace

from offline.talk import OfflineConversation
from toolyard import tool
from toolyard.core.items import Reasoning
from toolyard.models.offline.planner import offer_examples
from toolyard.models.offline.wording import SENTENCES


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


@pytest.mark.parametrize(
    ("message", "line"),
    [
        *(
            (
                message,
                "I can only use the tools here. Try for example “delete order 2”, “Create parcel”, “show my orders”.",
            )
            for message in ("hello", "what can you do?", "what is the capital of France?", "")
        ),
        ("你好", "我只能使用这里的工具，例如：“delete order 2”、“Create parcel”、“显示订单”。"),
    ],
)
def test_where_no_tool_fits_one_line_has_three_examples_which_can_be_picked_and_edited(message: str, line: str) -> None:
    step = OfflineConversation(*TOOLS).say(message)
    assert step.text.splitlines()[0] == line
    assert [suggestion.label for suggestion in step.suggestions] == ["Delete order", "Create parcel", "List orders"]
    assert all(suggestion.edit and f"“{suggestion.text}”" in line for suggestion in step.suggestions)


def test_the_tools_nearest_to_a_message_come_first() -> None:
    step = offer_examples(OfflineConversation(*TOOLS).catalogue, "how is the stock?", "en")
    assert [suggestion.label for suggestion in step.suggestions] == ["Show stock", "Delete order", "Create parcel"]


def test_without_tools_it_says_so() -> None:
    assert SENTENCES["no_tools"][0] in OfflineConversation().say("add milk").text


@tool(read_only=True, examples=["sum of {kind}", "how many {kind}", "list {kind}", "{kind}合计"])
def sum_costs(kind: str) -> dict[str, object]:
    "Add up the costs of a kind."
    if kind == "free":
        return {"ok": True, "total": 0, "by_month": {"May": 0}}
    if kind == "plain":
        return {"ok": True, "total": 0}
    return {"ok": True, "total": 0.0, "by_month": {}, "entries": []}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("sum of bread", "Sum costs: kind bread, total 0.\nNo entry matched kind bread."),
        ("面包合计", "Sum costs: kind 面包, total 0.\n没有符合条件的条目（kind 面包）。"),
        ("sum of free", "Sum costs: kind free, total 0.\n- May: 0"),
        ("sum of plain", "Sum costs: kind plain, total 0."),
    ],
)
def test_a_total_of_nothing_says_that_no_entry_matched(message: str, text: str) -> None:
    assert OfflineConversation(sum_costs).say(message).text.partition("\n\n")[0] == text


def test_a_total_of_nothing_without_a_filter_or_of_a_tool_that_changes_something_does_not() -> None:
    @tool(read_only=True, examples=["sum up"])
    def sum_up() -> dict[str, object]:
        "Add up."
        return {"total": 0, "entries": []}

    @tool(examples=["clear {kind}"])
    def clear(kind: str) -> dict[str, object]:
        "Clear a kind of costs."
        return {"kind": kind, "left": 0, "entries": []}

    talk = OfflineConversation(sum_up, clear)
    assert all("matched" not in talk.say(message).text for message in ("sum up", "clear bread"))


class ParcelResult(TypedDict):
    weight: float | None
    sent: str


@tool(
    examples=["send {what}", "寄{what}"],
    says=["Sent {what}, {weight} kg, {sent}.", "Sent {what}, {sent}.", "已于{sent}寄出{what}。"],
)
def send_parcel(what: str) -> ParcelResult:
    "Send a parcel."
    return {"weight": None if what == "socks" else 2.0, "sent": "2026-11-20T10:00:00"}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("send books", "Sent books, 2 kg, 2026-11-20 10:00."),
        ("send socks", "Sent socks, 2026-11-20 10:00."),
        ("寄“书”", "已于2026-11-20 10:00寄出书。"),
    ],
)
def test_a_result_is_told_in_the_sentence_of_its_tool_whose_values_are_known(message: str, text: str) -> None:
    assert OfflineConversation(send_parcel).say(message).text.partition("\n\n")[0] == text


def test_a_result_that_has_not_what_the_sentences_tell_is_shown_as_it_is() -> None:
    @tool(examples=["add {item}"], says="Added {item}: {note}.")
    def add(item: str, note: str = "") -> dict[str, object]:
        "Add an item."
        return {"item": item}

    assert OfflineConversation(add).say("add milk").text.startswith("Add: item milk.")


@tool(examples=["add {item} to groceries"], propose=["we need {item}"])
def add_to_groceries(item: str) -> str:
    "Put an item on the grocery list."
    return item


def test_a_statement_is_proposed_where_its_author_says_so() -> None:
    talk = OfflineConversation(add_to_groceries)
    talk.say("add milk to groceries")
    assert talk.ran_calls == [("add_to_groceries", {"item": "milk"})]
    assert "Shall I do this?" in talk.say("we need help").text
    assert talk.ran_calls == [] and talk.proposed_calls == [("add_to_groceries", {"item": "help"})]
    talk.say("yes")
    assert talk.ran_calls == [("add_to_groceries", {"item": "help"})]
