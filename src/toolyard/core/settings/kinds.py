"""The types that a setting may have: whether a value fits, how to describe both in words, and how to parse a text.

All functions work on msgspec's descriptions of types, so that they need no names of settings.
"""

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import cast

import msgspec
from msgspec import inspect

from toolyard.core.json_types import is_list

Kind = inspect.Type
LARGE_NUMBER = 1e15
_YES_NO = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


def strip_marks(kind: Kind) -> tuple[Kind, Mapping[str, object]]:
    """Return a type without its marks, and the marks: the `extra` of its `Meta`."""
    if isinstance(kind, inspect.Metadata):
        return kind.type, cast(Mapping[str, object], kind.extra or {})
    return kind, {}


def iter_alternatives(kind: Kind) -> Iterator[Kind]:
    """Yield the types of a union without None, or the type itself if it is no union."""
    inner, _ = strip_marks(kind)
    if isinstance(inner, inspect.UnionType):
        yield from (choice for choice in inner.types if not isinstance(choice, inspect.NoneType))
    else:
        yield kind


def list_settings(table: inspect.StructType) -> list[inspect.Field]:
    """Return the fields that a configuration may set, without those that the server records or a request gives."""
    not_settings = ("recorded", "request")
    return [field for field in table.fields if strip_marks(field.type)[1].get("is") not in not_settings]


def find_struct(kind: Kind) -> inspect.StructType | None:
    """Return the struct among the alternatives, or None."""
    return next((choice for choice in iter_alternatives(kind) if isinstance(choice, inspect.StructType)), None)


def get_item_type(kind: Kind) -> Kind | None:
    """Return the type of a list's items, or None if the type is no list."""
    inner, _ = strip_marks(kind)
    return inner.item_type if isinstance(inner, inspect.VarTupleType | inspect.FrozenSetType) else None


def fits(value: object, kind: Kind) -> bool:
    """Return whether a plain value is a text, number, choice or list of this type. A table never fits."""
    inner, marks = strip_marks(kind)
    match inner:
        case inspect.StrType():
            return isinstance(value, str) and _is_text(value, marks)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType() | inspect.FloatType():
            return _is_number(value, inner, marks)
        case inspect.LiteralType():
            return isinstance(value, str) and value in inner.values
        case inspect.UnionType():
            return any(fits(value, choice) for choice in inner.types)
        case _:
            item_type = get_item_type(inner)
            if item_type is None or not is_list(value):
                return False
            return all(fits(item, item_type) for item in value)


def describe_type(kind: Kind) -> str:
    """Return in words what fits the type."""
    inner, marks = strip_marks(kind)
    if says := marks.get("says"):
        return str(says)
    match inner:
        case inspect.StrType():
            return "a text that is not empty" if marks.get("min_length") else "a text"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number from {marks['ge']} to {marks['le']}" if "le" in marks else "a whole number"
        case inspect.FloatType():
            if "le" not in marks:
                return "a number"
            low = f"from {marks['ge']:g}" if "ge" in marks else f"above {marks['gt']:g}"
            return f"a number {low}, at most {marks['le']:.0f}"
        case inspect.LiteralType():
            choices = [f'"{value}"' for value in inner.values]
            return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
        case inspect.UnionType():
            return " or ".join(describe_type(choice) for choice in iter_alternatives(inner))
        case inspect.DictType(value_type=value_type) if isinstance(strip_marks(value_type)[0], inspect.FloatType):
            return "a table of numbers"
        case _:
            item_type = get_item_type(inner)
            return "a table" if item_type is None else f"a list{_describe_items(item_type)}"


def list_choices(kind: Kind) -> list[str]:
    """Return the words that a setting, or an entry of its list, has to be one of; none if it has no such words."""
    inner, _ = strip_marks(kind)
    if isinstance(inner, inspect.LiteralType):
        return [str(value) for value in inner.values]
    if isinstance(inner, inspect.UnionType):
        return [choice for alternative in iter_alternatives(inner) for choice in list_choices(alternative)]
    item_type = get_item_type(inner)
    return [] if item_type is None else list_choices(item_type)


def describe_value(value: object) -> str:
    """Return in words what a value is, without quoting a text: it may be a secret."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "so large a number" if abs(value) >= LARGE_NUMBER else f"{value}"
        case str():
            return "this text" if value else "an empty text"
        case dict():
            return "a table"
        case list():
            return "this list"
        case datetime.date() | datetime.time():
            return "a date or time"
        case _:
            return f"a {type(value).__name__}"


def parse_text(text: str, kind: Kind) -> object:
    """Return the value that the text of a variable or a flag stands for; the text itself if no alternative fits it."""
    choices = list(iter_alternatives(kind))
    # Where a setting may be a text or a list ("all", or names of tools), a text that looks like a list becomes one.
    if any(
        isinstance(strip_marks(choice)[0], inspect.LiteralType | inspect.StrType) and fits(text, choice)
        for choice in choices
    ) and (len(choices) == 1 or not _is_list(text)):
        return text
    for choice in choices:
        if (value := _parse_alternative(text, choice)) is not None:
            return value
    return text


def _parse_alternative(text: str, kind: Kind) -> object:
    inner, _ = strip_marks(kind)
    item_type = get_item_type(inner)
    match inner:
        case inspect.BoolType():
            return _YES_NO.get(text.lower())
        case inspect.IntType():
            return int(text) if _WHOLE_NUMBER.fullmatch(text) else None
        case inspect.FloatType():
            return _parse_decimal(text)
        case inspect.StructType() | inspect.DictType():
            return _parse_json(text)
        case _ if item_type is not None and not text.lstrip().startswith("[") and find_struct(item_type) is None:
            return [part.strip() for part in text.split(",") if part.strip()]
        case _ if item_type is not None:
            return _parse_json(text)
        case _:
            return None


def _is_text(value: str, marks: Mapping[str, object]) -> bool:
    # Neither a NUL nor a lone surrogate can be passed on to the operating system or be encoded as UTF-8.
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        return False
    return len(value) >= cast(int, marks.get("min_length", 0)) and bool(re.search(str(marks.get("pattern", "")), value))


def _is_number(value: object, kind: inspect.IntType | inspect.FloatType, marks: Mapping[str, object]) -> bool:
    allowed = int if isinstance(kind, inspect.IntType) else int | float
    if isinstance(value, bool) or not isinstance(value, allowed) or value != value:  # NaN differs from itself
        return False
    bounds = cast(Mapping[str, float], marks)
    return bounds.get("ge", value) <= value <= bounds.get("le", value) and ("gt" not in bounds or value > bounds["gt"])


def _is_list(text: str) -> bool:
    return text.lstrip().startswith("[") or "," in text


def _parse_decimal(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _parse_json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _describe_items(item_type: Kind) -> str:
    inner, marks = strip_marks(item_type)
    if "says" in marks or isinstance(inner, inspect.LiteralType):
        return f", each {describe_type(item_type)}"
    return (
        " of tables"
        if find_struct(item_type)
        else " of texts that are not empty"
        if _is_name(item_type)
        else " of texts"
    )


def _is_name(item_type: Kind) -> bool:
    inner, marks = strip_marks(item_type)
    return isinstance(inner, inspect.StrType) and bool(marks.get("min_length"))
