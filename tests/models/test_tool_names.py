"""Names in a provider's alphabet lead back to the tools that they stand for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.models.shared.tool_names import (
    DEFAULT_ALPHABET,
    GEMINI_ALPHABET,
    Alphabet,
    from_provider_name,
    to_provider_name,
)

each_alphabet = pytest.mark.parametrize("alphabet", [DEFAULT_ALPHABET, GEMINI_ALPHABET])


@each_alphabet
@given(names=st.lists(st.text(max_size=90), unique=True, max_size=6))
def test_any_name_is_sent_as_one_that_the_provider_takes_and_leads_back(alphabet: Alphabet, names: list[str]) -> None:
    sent = [to_provider_name(name, alphabet) for name in names]
    assert len(set(sent)) == len(names)
    assert all(alphabet.valid_name.fullmatch(name) for name in sent)
    assert [from_provider_name(name, names, alphabet) for name in sent] == names


@each_alphabet
@pytest.mark.parametrize("name", ["add", "get_weather-2", "_private", "x" * 64])
def test_a_name_that_the_provider_takes_is_left_as_it_is(alphabet: Alphabet, name: str) -> None:
    assert to_provider_name(name, alphabet) == name == from_provider_name(name, [], alphabet)


def test_names_that_resemble_each_other_are_told_apart() -> None:
    assert len({to_provider_name(name) for name in ("a.b", "a/b", "a b", "x" * 65, "x" * 66)}) == 5


def test_what_one_provider_takes_another_may_not() -> None:
    assert to_provider_name("2fast", DEFAULT_ALPHABET) == "2fast"
    assert to_provider_name("2fast", GEMINI_ALPHABET).startswith("_2fast_")
    assert to_provider_name("a.b", GEMINI_ALPHABET) == "a.b"
