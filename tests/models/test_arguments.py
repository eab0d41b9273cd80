"""Arguments are read if they are whole, and never guessed if they are not."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from toolyard.core.conversation.events import TurnEnded
from toolyard.core.items import Call
from toolyard.models.chat import from_wire
from toolyard.models.shared.arguments import is_whole, read_arguments
from wire.local import request
from wire.reply_bytes import DONE, TOOLS, piece

characters = st.characters(codec="utf-8")
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(characters)
)
tricky = st.sampled_from(["a", "{", "}", ",}", '"', "\\", "é", "\U0001f600"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(tricky | st.text(characters), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(tricky | st.text(characters), values, max_size=5)
cuts = st.lists(st.integers(0, 400), max_size=8)


def dump_json(value: object, ascii_only: bool, indent: int | None) -> str:
    return json.dumps(value, ensure_ascii=ascii_only, indent=indent)


def split_text(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:stop] for start, stop in pairwise(places)]


@given(objects, st.booleans(), st.sampled_from([None, 1]), cuts)
def test_any_object_in_any_fragments_comes_out_the_same(
    value: dict[str, object], ascii_only: bool, indent: int | None, cuts: list[int]
) -> None:
    fragments = split_text(dump_json(value, ascii_only, indent), cuts)
    body = piece("add", "", index=0, id="x") + b"".join(piece(None, each, index=0) for each in fragments)
    last = from_wire([body + TOOLS + DONE], request())[-1]
    assert isinstance(last, TurnEnded)
    (call,) = last.items
    assert isinstance(call, Call)
    assert (call.arguments, call.unreadable) == (value, "")


@given(objects, st.booleans(), st.sampled_from([None, 1]), cuts, st.integers(0, 400))
def test_no_object_that_was_cut_off_is_ever_readable(
    value: dict[str, object], ascii_only: bool, indent: int | None, cuts: list[int], length: int
) -> None:
    full_text = dump_json(value, ascii_only, indent)
    fragments = split_text(full_text[: length % len(full_text)], cuts)
    assert read_arguments(fragments, cut_off=True).unreadable
    assert read_arguments(fragments, cut_off=True).value == {}
    assert not is_whole(fragments)


@given(st.integers(1, 4), cuts, st.integers(0, 400))
def test_a_nesting_that_repeats_itself_is_not_taken_for_cumulative(depth: int, cuts: list[int], length: int) -> None:
    """The hardest case: every fragment may be a prefix of the next, and the last may be an object of its own."""
    full_text = '{"a":' * depth + "1" + "}" * depth
    cut = full_text[: length % len(full_text)]
    in_step = [cut[start : start + 5] for start in range(0, 5 * (depth - 1), 5)] + [cut[5 * (depth - 1) :]]
    for fragments in (split_text(cut, cuts), in_step):
        assert read_arguments(fragments, cut_off=True).unreadable


@given(objects, st.lists(st.integers(1, 400), min_size=1, max_size=6))
def test_cumulative_arguments_are_read_or_refused_but_never_misread(value: dict[str, object], cuts: list[int]) -> None:
    full_text = json.dumps(value)
    fragments = [full_text[:cut] for cut in sorted({cut % len(full_text) for cut in cuts})] + [full_text]
    read = read_arguments(fragments)
    assert read.unreadable or read.value == value


def test_closing_the_braces_would_make_the_cut_off_readable_so_the_property_can_fail() -> None:
    """A negative control: this is what is not done."""
    cut = '{"path": "/tmp", "options": {"recursive": true'
    assert read_arguments([cut]).unreadable
    assert not read_arguments([cut + "}}"]).unreadable


def test_the_reason_shows_the_head_of_what_was_sent() -> None:
    why = read_arguments(['{"text": "' + "x" * 5_000]).unreadable
    assert '{"text": "xxx' in why
    assert len(why) < 260


def test_a_long_string_that_never_ends_is_refused_in_time_that_grows_with_its_length() -> None:
    """A pattern that starts again at each quote would not come back from this."""
    assert read_arguments(['{"a":1,} "' + '\\"' * 300_000]).unreadable


def test_depth_up_to_the_limit_is_read() -> None:
    assert not read_arguments(['{"a":' + "[" * 90 + "]" * 90 + "}"]).unreadable
    assert not read_arguments(['{"a":[' + ",".join(["[]"] * 500) + "]}"]).unreadable
