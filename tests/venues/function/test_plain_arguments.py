"""Arguments of plain types skip the parser. What they may be stays as the parser has it."""

import pytest

from toolyard.venues.function.signature import Signature


def book(room: str, nights: int = 1, breakfast: bool = False) -> str:
    """Book a room."""
    return room


def book_or_ask(room: str | None, nights: int = 1, breakfast: bool = False) -> str:
    """Book a room, with a parameter that only the parser can read."""
    return room or ""


@pytest.mark.parametrize(
    "arguments",
    [
        {"room": "blue"},
        {"room": "blue", "nights": 2, "breakfast": True},
        {"room": "", "nights": 10**30},
        {},
        {"nights": 2},
        {"room": 7},
        {"room": "blue", "nights": True},
        {"room": "blue", "nights": 2.0},
        {"room": "blue", "nights": "2"},
        {"room": "blue", "breakfast": 1},
        {"room": "blue", "nights": None},
        {"room": "blue", "floor": 3},
    ],
    ids=str,
)
def test_plain_arguments_are_read_as_the_parser_reads_them(arguments: dict[str, object]) -> None:
    plain, parsed = Signature(book, "book"), Signature(book_or_ask, "book")
    problem = plain.validate(arguments)
    assert problem == parsed.validate(arguments)
    if problem is None:
        assert plain.parse_arguments(arguments) == parsed.parse_arguments(arguments) == arguments
        assert plain.parse_arguments(arguments) is not arguments
