"""Histories share what they have in common and never change under a reader; `find_faults` is a provider's eye."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.story import model_text, ok_result, tool_call, user
from toolyard.core.conversation.history import History, find_faults
from toolyard.core.items import Call, Item, ModelText


def _texts(names: str) -> list[Item]:
    return [model_text(name) for name in names]


def test_a_longer_history_shares_the_items_of_the_shorter_and_leaves_it_alone() -> None:
    short = History(_texts("ab"))
    long = short.plus(_texts("cd"))
    assert long.root is short.root
    assert ([item.id for item in short], [item.id for item in long]) == (["a", "b"], ["a", "b", "c", "d"])


def test_two_extensions_of_one_history_do_not_see_each_other() -> None:
    stem = History(_texts("a"))
    left, right = stem.plus(_texts("b")), stem.plus(_texts("c"))
    assert [item.id for item in left] == ["a", "b"]
    assert [item.id for item in right] == ["a", "c"]
    assert left.root is not right.root


def test_histories_that_begin_empty_do_not_share_a_list() -> None:
    empty = History()
    assert list(empty.plus(_texts("a"))) != list(empty.plus(_texts("b")))
    assert len(empty) == 0
    assert empty.plus([]) is empty


def test_a_history_ends_where_it_ended_although_another_goes_on() -> None:
    short = History(_texts("ab"))
    short.plus(_texts("c"))
    assert short[-1].id == "b"
    assert [item.id for item in short[:5]] == ["a", "b"]
    assert short.items_from(1) == _texts("b")
    with pytest.raises(IndexError):
        _ = short[2]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3))))
def test_whatever_is_extended_in_whatever_order_reads_as_it_was_written(grown: list[tuple[int, int]]) -> None:
    histories: list[tuple[History, list[Item]]] = [(History(), [])]
    for pick, count in grown:
        base, written = histories[pick % len(histories)]
        items: list[Item] = [model_text(f"{len(histories)}.{number}") for number in range(count)]
        histories.append((base.plus(items), [*written, *items]))
    assert all(list(history) == written for history, written in histories)


def test_a_history_in_order_has_no_faults() -> None:
    assert find_faults([]) == []
    assert find_faults([user("u"), model_text("t")]) == []
    assert (
        find_faults(
            [
                tool_call("a"),
                replace(tool_call("p"), ran_at="acme"),
                model_text("t"),
                replace(tool_call("q"), ran_at="acme"),
            ]
        )
        != []
    )
    assert (
        find_faults([replace(tool_call("p"), ran_at="acme"), model_text("t"), replace(tool_call("q"), ran_at="acme")])
        == []
    )
    assert (
        find_faults(
            [
                user("u"),
                tool_call("a"),
                tool_call("b"),
                ok_result("b"),
                ok_result("a"),
                tool_call("c"),
                ok_result("c"),
                model_text("t"),
            ]
        )
        == []
    )


@pytest.mark.parametrize(
    ("items", "fault"),
    [
        ([tool_call("a")], "calls ['a'] have no result"),
        ([tool_call("a"), user("u"), ok_result("a")], "calls ['a'] have no result before 'u'"),
        (
            [tool_call("a"), tool_call("b"), ok_result("a"), tool_call("c"), ok_result("b"), ok_result("c")],
            "calls ['b'] have no result before 'c'",
        ),
        ([ok_result("a")], "result 'a.result' answers no open call"),
        ([tool_call("a"), ok_result("a"), ok_result("a")], "id 'a.result' is used twice"),
        ([user("u"), user("u")], "id 'u' is used twice"),
    ],
)
def test_what_a_strict_provider_would_refuse_is_a_fault(items: list[Item], fault: str) -> None:
    assert fault in find_faults(items)


def test_an_item_that_cannot_be_estimated_leaves_the_sums_of_those_before_it_as_they_are() -> None:
    nested: dict[str, object] = {}
    for _ in range(sys.getrecursionlimit() * 2):
        nested = {"a": nested}
    text = ModelText(id="text", at=0.0, text="Hello")
    history = History([text]).plus([Call(id="call", at=0.0, tool="add", arguments=nested)])
    with pytest.raises(RecursionError):
        history.sum_first(2)
    assert history.sum_first(1) == History([text]).sum_first(1)
