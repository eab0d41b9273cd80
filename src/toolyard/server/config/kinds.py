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
LARGE = 1e15
_YES_NO = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def bare(kind: Kind) -> tuple[Kind, Mapping[str, object]]:
    """A kind without its marks, and the marks (what `Meta(extra=…)` says of it)."""
    if isinstance(kind, inspect.Metadata):
        return kind.type, cast(Mapping[str, object], kind.extra or {})
    return kind, {}


def alternatives(kind: Kind) -> Iterator[Kind]:
    """The kinds that a setting may be one of, without "not given"."""
    inner, _ = bare(kind)
    if isinstance(inner, inspect.UnionType):
        yield from (one for one in inner.types if not isinstance(one, inspect.NoneType))
    else:
        yield kind


def structure(kind: Kind) -> inspect.StructType | None:
    """The table among the alternatives, if there is one."""
    return next((one for one in alternatives(kind) if isinstance(one, inspect.StructType)), None)


def item_of(kind: Kind) -> Kind | None:
    """The kind of a list's items."""
    inner, _ = bare(kind)
    return inner.item_type if isinstance(inner, inspect.VarTupleType | inspect.FrozenSetType) else None


def fits(value: object, kind: Kind) -> bool:
    """Whether a plain value is a text, number, choice or list of the kind. Tables are not judged here."""
    inner, _ = bare(kind)
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
            item = item_of(inner)
            if item is None or not isinstance(value, list):
                return False
            return all(fits(one, item) for one in cast(list[object], value))


def described(kind: Kind) -> str:
    """In words, what fits."""
    inner, marks = bare(kind)
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
            return " or ".join(described(one) for one in alternatives(inner))
        case _:
            item = item_of(inner)
            return "a table" if item is None else f"a list{_each(item)}"


def named(value: object) -> str:
    """What a value is, without telling a text: it may be a secret."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "so large a number" if abs(value) >= LARGE else f"{value}"
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


def from_text(text: str, kind: Kind) -> object:
    """The value that a variable or a flag stands for; the text itself if it does not stand for one of the kind."""
    choices = list(alternatives(kind))
    if any(isinstance(bare(one)[0], inspect.LiteralType | inspect.StrType) and fits(text, one) for one in choices) and (
        len(choices) == 1 or not _is_list(text)
    ):
        return text
    for one in choices:
        if (value := _one_from_text(text, one)) is not None:
            return value
    return text


def _one_from_text(text: str, kind: Kind) -> object:
    inner, _ = bare(kind)
    item = item_of(inner)
    match inner:
        case inspect.BoolType():
            return _YES_NO.get(text.lower())
        case inspect.IntType():
            return int(text) if _WHOLE.fullmatch(text) else None
        case inspect.FloatType():
            return _decimal(text)
        case inspect.StructType() | inspect.DictType():
            return _json(text)
        case _ if item is not None and not text.lstrip().startswith("[") and structure(item) is None:
            return [part.strip() for part in text.split(",") if part.strip()]
        case _ if item is not None:
            return _json(text)
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


def _decimal(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _each(item: Kind) -> str:
    if "says" in bare(item)[1]:
        return f", each {described(item)}"
    return " of tables" if structure(item) else " of texts that are not empty" if _is_name(item) else " of texts"


def _is_name(item: Kind) -> bool:
    inner, _ = bare(item)
    return isinstance(inner, inspect.StrType) and bool(inner.min_length)
