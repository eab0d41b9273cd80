"""Every behaviour of the seeds is proven by a test that says so, or is on the list that only shrinks."""

import ast
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import pytest

from requirements import REQUIREMENTS, SEEDS, UNPROVEN

TESTS = Path(__file__).parent


def marks_in(source: str) -> set[str]:
    """The ids in the `pytest.mark.proves(…)` of a test file, read without running it."""
    marks: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr="proves", value=ast.Attribute(attr="mark")), args=ids):
                marks.update(_text(node) for node in ids)
            case _:
                pass
    return marks


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError(f"line {node.lineno}: proves(…) takes ids as plain texts, so that they can be read")


def find_complaints(requirements: Collection[str], unproven: Iterable[str], marks: Mapping[str, set[str]]) -> list[str]:
    """What is wrong between the requirements, the list of unproven ones, and the marks of each file."""
    waiting, proven, requirement_ids = set(unproven), set[str]().union(*marks.values()), set(requirements)
    return [
        *(
            f"{file} proves {name}, which is no requirement"
            for file in marks
            for name in sorted(marks[file] - requirement_ids)
        ),
        *(f"{name} is proven by no test" for name in requirements if name not in proven | waiting),
        *(f"{name} is proven: take it out of UNPROVEN" for name in sorted(waiting & proven)),
        *(f"{name} in UNPROVEN is no requirement" for name in sorted(waiting - requirement_ids)),
    ]


def test_every_requirement_is_proven_or_on_the_list_that_only_shrinks() -> None:
    marks = {
        str(file.relative_to(TESTS)): marks_in(file.read_text("utf-8")) for file in sorted(TESTS.rglob("test_*.py"))
    }
    assert find_complaints(REQUIREMENTS, UNPROVEN, marks) == []


def test_the_list_is_sorted_and_names_nothing_twice() -> None:
    assert list(UNPROVEN) == sorted(set(UNPROVEN))


def test_every_requirement_belongs_to_a_seed_and_is_a_sentence() -> None:
    assert {name.split(".")[0] for name in REQUIREMENTS} == set(SEEDS)
    assert [name for name, requirement in REQUIREMENTS.items() if not requirement.endswith((".", "。"))] == []
    assert len(set(REQUIREMENTS.values())) == len(REQUIREMENTS)


@pytest.mark.parametrize(
    ("unproven", "marks", "complaint"),
    [
        (["000.a"], {"test_x.py": {"000.b", "000.c"}}, "test_x.py proves 000.c, which is no requirement"),
        (["000.a"], {"test_x.py": set[str]()}, "000.b is proven by no test"),
        (["000.a", "000.b"], {"test_x.py": {"000.b"}}, "000.b is proven: take it out of UNPROVEN"),
        (["000.a", "000.z"], {"test_x.py": {"000.b"}}, "000.z in UNPROVEN is no requirement"),
    ],
)
def test_the_check_can_fail(unproven: list[str], marks: dict[str, set[str]], complaint: str) -> None:
    assert find_complaints(["000.a", "000.b"], unproven, marks) == [complaint]
    assert find_complaints(["000.a", "000.b"], ["000.a"], {"test_x.py": {"000.b"}}) == []


def test_marks_are_found_wherever_pytest_would_find_them() -> None:
    source = (
        "pytestmark = pytest.mark.proves('000.a')\n"
        "@pytest.mark.proves('000.b', '000.c')\n"
        "async def test_one(): ...\n"
        "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.proves('000.d'))])\n"
        "def test_two(x): proves('000.e')\n"
    )
    assert marks_in(source) == {"000.a", "000.b", "000.c", "000.d"}


def test_a_mark_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ValueError, match="plain texts"):
        marks_in("@pytest.mark.proves(*IDS)\ndef test_one(): ...\n")
