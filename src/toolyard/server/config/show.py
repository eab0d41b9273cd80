"""A configuration as TOML that a person may read over another's shoulder: secrets are masked."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from msgspec import Struct, inspect

from toolyard.core.masking import MASK, mask_addresses
from toolyard.server.config.kinds import Kind, alternatives, bare, item_of, structure

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def shown(config: Struct, kind: inspect.StructType) -> str:
    return "\n".join(_table(config, kind, ())).strip("\n") + "\n"


def _table(table: Struct, kind: inspect.StructType, path: tuple[str, ...]) -> Iterator[str]:
    """The plain settings of a table, then the tables within it."""
    values = [(one.name, one.type, cast(object, getattr(table, one.name))) for one in kind.fields]
    given = [(name, kind, value) for name, kind, value in values if value is not None and value != ""]
    for name, kind_of_it, value in given:
        if not _holds_tables(value, kind_of_it):
            yield f"{name} = {_plain(value, kind_of_it)}"
    for name, kind_of_it, value in given:
        if _holds_tables(value, kind_of_it):
            yield from _tables(value, kind_of_it, (*path, name))


def _tables(value: object, kind: Kind, path: tuple[str, ...]) -> Iterator[str]:
    chosen = next(alternatives(kind))
    item = item_of(chosen)
    if isinstance(chosen, inspect.StructType):
        yield from ("", f"[{_dotted(path)}]")
        yield from _table(cast(Struct, value), chosen, path)
    elif isinstance(chosen, inspect.DictType):
        yield from _names(cast(Mapping[str, object], value), chosen, path)
    elif isinstance(item, inspect.StructType):
        for one in cast(Sequence[Struct], value):
            yield from ("", f"[[{_dotted(path)}]]")
            yield from _table(one, item, path)


def _names(table: Mapping[str, object], kind: inspect.DictType, path: tuple[str, ...]) -> Iterator[str]:
    if structure(kind.value_type) is None and table:
        yield from ("", f"[{_dotted(path)}]")
        yield from (f"{_dotted((name,))} = {_plain(value, kind.value_type)}" for name, value in table.items())
        return
    for name, one in table.items():
        yield from _tables(one, kind.value_type, (*path, name))


def _holds_tables(value: object, kind: Kind) -> bool:
    chosen = next(alternatives(kind))
    item = item_of(chosen)
    return isinstance(chosen, inspect.StructType | inspect.DictType) or (
        bool(value) and item is not None and structure(item) is not None
    )


def _plain(value: object, kind: Kind) -> str:
    _, marks = bare(kind)
    if marks.get("is") in ("secret", "header", "hash"):
        return _text(MASK)
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(mask_addresses(value, every_parameter=True))
        case frozenset():
            return _list(sorted(cast(frozenset[str], value)))
        case tuple():
            return _list(cast(tuple[str, ...], value))
        case _:
            return repr(value)


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(_text(mask_addresses(text, every_parameter=True)) for text in texts)}]"


def _dotted(path: Sequence[str]) -> str:
    return ".".join(key if _PLAIN_KEY.fullmatch(key) else _text(key) for key in path)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
