"""A cursor survives the trip to a client and back, and anything else is refused with a word of help."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.core.conversation.cursor import Cursor, parse_cursor
from toolyard.core.errors import Invalid

_numbers = st.integers(0, 10**14)


@given(_numbers, st.integers(1, 10**6), _numbers)
def test_what_was_given_out_is_understood(seq: int, turn: int, text_bytes: int) -> None:
    for cursor in (Cursor(seq), Cursor(seq, turn, text_bytes)):
        assert parse_cursor(str(cursor)) == cursor


def test_nothing_is_the_beginning() -> None:
    assert parse_cursor("") == Cursor(0, 0, 0)


@pytest.mark.parametrize("text", ["-1", "1.2", "1.2.3.4", "one", "1.2.x", " 1", "٣", "1" * 16, "1..2"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not a place in this stream"):
        parse_cursor(text)


@given(st.text())
def test_garbage_is_a_cursor_or_refused_and_never_an_accident(text: str) -> None:
    with contextlib.suppress(Invalid):
        assert str(parse_cursor(text)).count(".") in (0, 2)
