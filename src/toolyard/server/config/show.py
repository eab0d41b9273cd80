"""Render a configuration as TOML with masked secrets, so that it can be shown to others."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from msgspec import Struct, inspect

from toolyard.core.masking import MASK, mask_addresses
from toolyard.core.settings.kinds import Kind, find_struct, get_item_type, iter_alternatives, list_settings, strip_marks

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def render_config(config: Struct, kind: inspect.StructType) -> str:
    return "\n".join(_render_table(config, kind, ())).strip("\n") + "\n"


def render_values(config: Struct, kind: inspect.StructType) -> Iterator[tuple[str, str]]:
    """Yield the name and the masked value, as TOML, of each setting that is not a table."""
    for field in list_settings(kind):
        value = cast(object, getattr(config, field.name))
        if value is not None and not _holds_tables(value, field.type):
            yield field.name, _render_value(value, field.type)


def _render_table(table: Struct, kind: inspect.StructType, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table: its plain settings, then the tables within it, as TOML requires."""
    fields = [(field.name, field.type, cast(object, getattr(table, field.name))) for field in list_settings(kind)]
    settings = [(name, kind, value) for name, kind, value in fields if value is not None and value != ""]
    for name, setting_type, value in settings:
        if not _holds_tables(value, setting_type):
            yield f"{name} = {_render_value(value, setting_type)}"
    for name, setting_type, value in settings:
        if _holds_tables(value, setting_type):
            yield from _render_tables(value, setting_type, (*path, name))


def _render_tables(value: object, kind: Kind, path: tuple[str, ...]) -> Iterator[str]:
    chosen = next(iter_alternatives(kind))
    item_type = get_item_type(chosen)
    if isinstance(chosen, inspect.StructType):
        yield from ("", f"[{_join_key(path)}]")
        yield from _render_table(cast(Struct, value), chosen, path)
    elif isinstance(chosen, inspect.DictType):
        yield from _render_named_tables(cast(Mapping[str, object], value), chosen, path)
    elif isinstance(item_type, inspect.StructType):
        for element in cast(Sequence[Struct], value):
            yield from ("", f"[[{_join_key(path)}]]")
            yield from _render_table(element, item_type, path)


def _render_named_tables(table: Mapping[str, object], kind: inspect.DictType, path: tuple[str, ...]) -> Iterator[str]:
    if find_struct(kind.value_type) is None and table:
        yield from ("", f"[{_join_key(path)}]")
        yield from (f"{_join_key((name,))} = {_render_value(value, kind.value_type)}" for name, value in table.items())
        return
    for name, value in table.items():
        yield from _render_tables(value, kind.value_type, (*path, name))


def _holds_tables(value: object, kind: Kind) -> bool:
    chosen = next(iter_alternatives(kind))
    item_type = get_item_type(chosen)
    return isinstance(chosen, inspect.StructType | inspect.DictType) or (
        bool(value) and item_type is not None and find_struct(item_type) is not None
    )


def _render_value(value: object, kind: Kind) -> str:
    _, marks = strip_marks(kind)
    if marks.get("is") in ("secret", "header", "hash"):
        return _quote(MASK)
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _quote(mask_addresses(value, every_parameter=True))
        case frozenset():
            return _render_list(sorted(cast(frozenset[str], value)))
        case tuple():
            return _render_list(cast(tuple[str, ...], value))
        case _:
            return repr(value)


def _render_list(texts: Sequence[str]) -> str:
    return f"[{', '.join(_quote(mask_addresses(text, every_parameter=True)) for text in texts)}]"


def _join_key(path: Sequence[str]) -> str:
    return ".".join(key if _PLAIN_KEY.fullmatch(key) else _quote(key) for key in path)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
