"""What one setting may be: whether a value fits, what to say of one that does not, and how a text becomes one.

It works on msgspec's descriptions of types and knows no setting by name.
"""

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import cast

import msgspec
from msgspec import inspect

Kind = inspect.Type
LARGE_NUMBER = 1e15
_YES_NO = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


def strip_marks(kind: Kind) -> tuple[Kind, Mapping[str, object]]:
    """A kind without its marks, and the marks (what `Meta(extra=…)` says of it)."""
    if isinstance(kind, inspect.Metadata):
        return kind.type, cast(Mapping[str, object], kind.extra or {})
    return kind, {}


def iter_alternatives(kind: Kind) -> Iterator[Kind]:
    """The kinds that a setting may be one of, without "not given"."""
    inner, _ = strip_marks(kind)
    if isinstance(inner, inspect.UnionType):
        yield from (one for one in inner.types if not isinstance(one, inspect.NoneType))
    else:
        yield kind


def find_struct(kind: Kind) -> inspect.StructType | None:
    """The table among the alternatives, if there is one."""
    return next((one for one in iter_alternatives(kind) if isinstance(one, inspect.StructType)), None)


def get_item_type(kind: Kind) -> Kind | None:
    """The kind of a list's items."""
    inner, _ = strip_marks(kind)
    return inner.item_type if isinstance(inner, inspect.VarTupleType | inspect.FrozenSetType) else None


def fits(value: object, kind: Kind) -> bool:
    """Whether a plain value is a text, number, choice or list of the kind. Tables are not judged here."""
    inner, _ = strip_marks(kind)
    match inner:
        case inspect.StrType():
            return isinstance(value, str) and _is_text(value, inner)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType() | inspect.FloatType():
            return _is_number(value, inner)
        case inspect.LiteralType():
            return isinstance(value, str) and value in inner.values
        case inspect.UnionType():
            return any(fits(value, one) for one in inner.types)
        case _:
            item = get_item_type(inner)
            if item is None or not isinstance(value, list):
                return False
            return all(fits(one, item) for one in cast(list[object], value))


def describe_type(kind: Kind) -> str:
    """In words, what fits."""
    inner, marks = strip_marks(kind)
    if says := marks.get("says"):
        return str(says)
    match inner:
        case inspect.StrType():
            return "a text that is not empty" if inner.min_length else "a text"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number from {inner.ge} to {inner.le}"
        case inspect.FloatType():
            low = f"from {inner.ge:g}" if inner.gt is None else f"above {inner.gt:g}"
            return f"a number {low}, at most {inner.le:.0f}"
        case inspect.LiteralType():
            choices = [f'"{value}"' for value in inner.values]
            return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
        case inspect.UnionType():
            return " or ".join(describe_type(one) for one in iter_alternatives(inner))
        case _:
            item = get_item_type(inner)
            return "a table" if item is None else f"a list{_describe_items(item)}"


def describe_value(value: object) -> str:
    """What a value is, without telling a text: it may be a secret."""
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
    """The value that a variable or a flag stands for; the text itself if it does not stand for one of the kind."""
    choices = list(iter_alternatives(kind))
    if any(
        isinstance(strip_marks(one)[0], inspect.LiteralType | inspect.StrType) and fits(text, one) for one in choices
    ) and (len(choices) == 1 or not _is_list(text)):
        return text
    for one in choices:
        if (value := _parse_alternative(text, one)) is not None:
            return value
    return text


def _parse_alternative(text: str, kind: Kind) -> object:
    inner, _ = strip_marks(kind)
    item = get_item_type(inner)
    match inner:
        case inspect.BoolType():
            return _YES_NO.get(text.lower())
        case inspect.IntType():
            return int(text) if _WHOLE_NUMBER.fullmatch(text) else None
        case inspect.FloatType():
            return _parse_decimal(text)
        case inspect.StructType() | inspect.DictType():
            return _parse_json(text)
        case _ if item is not None and not text.lstrip().startswith("[") and find_struct(item) is None:
            return [part.strip() for part in text.split(",") if part.strip()]
        case _ if item is not None:
            return _parse_json(text)
        case _:
            return None


def _is_text(value: str, kind: inspect.StrType) -> bool:
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        return False
    return len(value) >= (kind.min_length or 0) and (kind.pattern is None or bool(re.search(kind.pattern, value)))


def _is_number(value: object, kind: inspect.IntType | inspect.FloatType) -> bool:
    allowed = int if isinstance(kind, inspect.IntType) else int | float
    if isinstance(value, bool) or not isinstance(value, allowed) or value != value:
        return False
    low = (kind.ge is None or value >= kind.ge) and (kind.gt is None or value > kind.gt)
    return low and (kind.le is None or value <= kind.le)


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


def _describe_items(item: Kind) -> str:
    if "says" in strip_marks(item)[1]:
        return f", each {describe_type(item)}"
    return " of tables" if find_struct(item) else " of texts that are not empty" if _is_name(item) else " of texts"


def _is_name(item: Kind) -> bool:
    inner, _ = strip_marks(item)
    return isinstance(inner, inspect.StrType) and bool(inner.min_length)
