"""What the docstring of a tool says about its parameters describes the parameters; the rest describes the tool."""

import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from support import collect_events, get_result, open_yard
from toolyard import Context, tool
from toolyard.testing import call, say
from toolyard.venues.function.docstring import parse_docstring


class Place(BaseModel):
    """A place on a shelf."""

    shelf: str


def google(city: str, days: int = 1, location: Place | None = None) -> str:
    """Return the weather.

    It is from a station nearby.

    Args:
        city (str): The city, such as
            Paris: the capital.
        days: How many days.
        location: Where.

    Returns:
        A sentence.

    It is never older than an hour.
    """
    return city


def numpy(city: str, days: int = 1, location: Place | None = None) -> str:
    """Return the weather.

    It is from a station nearby.

    Parameters
    ----------
    city : str
        The city, such as
        Paris: the capital.
    days : int, optional
        How many days.
    location
        Where.

    Returns
    -------
    str
        A sentence.

    It is never older than an hour.
    """
    return city


def sphinx(city: str, days: int = 1, location: Place | None = None) -> str:
    """Return the weather.

    It is from a station nearby.

    :param city: The city, such as
        Paris: the capital.
    :param int days: How many days.
    :type days: int
    :param location: Where.
    :returns: A sentence.

    It is never older than an hour.
    """
    return city


RETURNS: dict[Callable[..., object], str] = {
    google: "Returns:\n    A sentence.",
    numpy: "Returns\n-------\nstr\n    A sentence.",
    sphinx: ":returns: A sentence.",
}


def property_descriptions(function: Callable[..., object]) -> dict[str, object]:
    properties = tool(function).definition.parameters["properties"]
    assert isinstance(properties, dict)
    return {name: schema.get("description") for name, schema in properties.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


@pytest.mark.parametrize("function", RETURNS)
def test_each_style_describes_the_parameters_and_leaves_the_rest_to_the_tool(function: Callable[..., object]) -> None:
    assert property_descriptions(function) == {
        "city": "The city, such as\nParis: the capital.",
        "days": "How many days.",
        "location": "Where.",
    }
    assert tool(function).definition.description == (
        f"Return the weather.\n\nIt is from a station nearby.\n\n{RETURNS[function]}\n\nIt is never older than an hour."
    )


def test_a_description_in_the_annotation_comes_before_that_of_the_docstring() -> None:
    def find(code: Annotated[str, Field(description="The code, as on the label")], unit: str) -> None:
        """Find it.

        Args:
            code: Some code.
            unit: The unit.
        """

    assert property_descriptions(find) == {"code": "The code, as on the label", "unit": "The unit."}
    assert tool(find).definition.description == "Find it."


def test_a_description_of_the_decorator_leaves_those_of_the_parameters() -> None:
    @tool(description="Look it up.")
    def find(code: str) -> None:
        """Find it.

        :param code: The code.
        """

    assert find.definition.description == "Look it up."
    assert property_descriptions(find.function) == {"code": "The code."}


def test_one_description_of_two_parameters_describes_both() -> None:
    def draw(width: int, height: int) -> None:
        """Draw a box.

        Parameters
        ----------
        width, height : int
            In millimetres.
        """

    assert property_descriptions(draw) == {"width": "In millimetres.", "height": "In millimetres."}


def test_the_context_is_described_to_nobody() -> None:
    def find(code: str, context: Context) -> None:
        """Find it.

        Args:
            code: The code.
            context: Who asks.
        """

    assert property_descriptions(find) == {"code": "The code."}
    assert tool(find).definition.description == "Find it."


@pytest.mark.parametrize(
    "docstring",
    [
        "Find it.",
        "Find it: fast. Note: args are optional.",
        "Find it.\n\nArgs:\n    kode: A parameter that does not exist.",
        "Find it.\n\nArgs:\n    something without a colon",
        "Args:\n    : nothing",
        "Find it.\n\n:param",
        "Find it.\n\nParameters\n----------\n",
    ],
)
def test_a_docstring_without_known_parameters_is_the_description_as_it_stands(docstring: str) -> None:
    parsed = parse_docstring(docstring, ["code"])
    assert (parsed.description, parsed.parameters) == (docstring, {})


PIECES = ["Args:", "Parameters", "----------", ":param code:", ":type code: int", "code", "code : int", "\n", "    ",
          "    code: A code", ":", "Returns:", "  - x", "*args", "(", ")", "[", "`", "\x00", "é"]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("\n".join))
def test_no_docstring_is_too_odd(docstring: str) -> None:
    parsed = parse_docstring(docstring, ["code"])
    assert parsed.parameters.keys() <= {"code"}


@pytest.mark.parametrize(
    ("docstring", "loaded"), [("Find it.", False), ("Find it.\n\n:param code: The code.", True)], ids=["plain", "param"]
)
def test_the_parser_is_loaded_only_for_a_docstring_that_describes_parameters(docstring: str, loaded: bool) -> None:
    code = (
        f"import sys, toolyard\ndef find(code: str) -> None: {docstring!r}\ntoolyard.tool(find)\n"
        "print('docstring_parser' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert output.stdout == f"{loaded}\n"


async def test_a_context_that_may_be_none_is_filled_in_for_a_run_and_may_be_left_out_in_a_direct_call() -> None:
    @tool
    def find(code: str, context: Context | None = None) -> str:
        """Find it."""
        return f"{code} for {context.caller.user if context else 'nobody'}"

    @tool
    def look(code: str, *, context: Optional[Context] = None) -> str:  # noqa: UP045 - as older code has it
        """Look."""
        return f"{code} for {context.caller.user if context else 'nobody'}"

    assert property_descriptions(find.function).keys() == property_descriptions(look.function).keys() == {"code"}
    assert find("M1") == look("M1") == "M1 for nobody"
    for name in ("find", "look"):
        async with open_yard([call(name, code="M1"), say("ok")], [find, look]) as yard:
            assert get_result(await collect_events(yard.run("go"))).content == "M1 for local"
