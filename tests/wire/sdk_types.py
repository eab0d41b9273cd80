"""Whether a value is what a TypedDict of the official SDK says, all the way down, with nothing added.

The types alone are lazy: at run time they accept anything. This walks them and forbids what they do not name.
"""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from types import NoneType, UnionType
from typing import IO, Annotated, Literal, Required, Union, cast, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import get_type_hints, is_typeddict

_SCALARS = (str, int, float, bool, NoneType)


def mismatches(value: object, expected: object, at: str = "$") -> list[str]:
    """What is wrong with the value, each with its place; empty if nothing is."""
    origin = get_origin(expected)
    if origin in (Required, Annotated):
        return mismatches(value, get_args(expected)[0], at)
    if _is_no_json(expected):
        return [f"{at}: not an object of {expected}"]
    if expected is object:
        return []
    if origin in (Union, UnionType):
        return _union_mismatches(value, get_args(expected), at)
    if origin is Literal:
        fits = any(value == choice and type(value) is type(choice) for choice in get_args(expected))
        return [] if fits else [f"{at}: {value!r} is none of {get_args(expected)}"]
    if is_typeddict(expected):
        return _typed_dict_mismatches(value, cast("type", expected), at)
    if origin in (dict, Mapping):
        return _dict_mismatches(value, get_args(expected)[1], at)
    if origin is not None and issubclass(cast("type", origin), Iterable):
        return _list_mismatches(value, get_args(expected)[0], at)
    assert expected in _SCALARS, f"{at}: the walker does not know {expected!r}"
    return [] if type(value) is expected else [f"{at}: {value!r} is not {expected}"]


def _is_no_json(expected: object) -> bool:
    """Some types also take files, or what a reply was read to: a body that was sent holds neither."""
    kind = get_origin(expected) or expected
    return kind in (IO, PathLike) or (isinstance(kind, type) and issubclass(kind, BaseModel))


def _union_mismatches(value: object, choices: Sequence[object], at: str) -> list[str]:
    attempts = [mismatches(value, choice, at) for choice in choices]
    return [] if any(not attempt for attempt in attempts) else min(attempts, key=_vagueness)


def _vagueness(faults: Sequence[str]) -> tuple[bool, int]:
    """The choice that the value was meant for is the one whose tag fits."""
    return any(".role:" in fault or ".type:" in fault or ": not an object" in fault for fault in faults), len(faults)


def _typed_dict_mismatches(value: object, expected: type, at: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{at}: not an object"]
    items = cast("dict[str, object]", value)
    hints = cast("dict[str, object]", get_type_hints(expected, include_extras=True))
    required_keys = {
        key for key, hint in hints.items() if get_origin(hint) is Required
    }  # __required_keys__ is wrong here
    faults = [f"{at}.{key}: not allowed in {expected.__name__}" for key in items.keys() - hints.keys()]
    faults += [f"{at}.{key}: missing" for key in required_keys - items.keys()]
    for key in items.keys() & hints.keys():
        faults += mismatches(items[key], hints[key], f"{at}.{key}")
    return faults


def _dict_mismatches(value: object, expected: object, at: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{at}: not an object"]
    items = cast("dict[str, object]", value)
    return [fault for key, each in items.items() for fault in mismatches(each, expected, f"{at}.{key}")]


def _list_mismatches(value: object, expected: object, at: str) -> list[str]:
    if not isinstance(value, list):
        return [f"{at}: not an array"]
    items = cast("list[object]", value)
    return [fault for number, each in enumerate(items) for fault in mismatches(each, expected, f"{at}[{number}]")]
