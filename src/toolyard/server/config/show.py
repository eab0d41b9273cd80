"""Render a configuration as TOML with masked secrets, so that it can be shown to others."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from msgspec import NODEFAULT, Struct, inspect

from toolyard.core.masking import MASK, mask_addresses
from toolyard.core.settings.checks import KeyPath
from toolyard.core.settings.kinds import Kind, find_struct, get_item_type, iter_alternatives, list_settings, strip_marks

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def render_config(
    config: Struct,
    kind: inspect.StructType,
    describe_source: Callable[[KeyPath], str] | None = None,
    show_secret: Callable[[KeyPath], str] = lambda path: MASK,
    *,
    shows_defaults: bool = True,
) -> str:
    """Return the settings as TOML. `show_secret` returns what stands in the place of a secret.

    `describe_source` returns a comment for the line of each value.
    """
    renderer = _Renderer(describe_source, show_secret, shows_defaults)
    return "\n".join(renderer.render_table(config, kind, ())).strip("\n") + "\n"


def render_values(config: Struct, kind: inspect.StructType) -> Iterator[tuple[str, str]]:
    """Yield the name and the masked value, as TOML, of each setting that is not a table."""
    renderer = _Renderer(None, lambda path: MASK, shows_defaults=True)
    for field in list_settings(kind):
        value = cast(object, getattr(config, field.name))
        if value is not None and not _holds_tables(value, field.type):
            yield field.name, renderer.render_value(value, field.type, (field.name,))


@dataclass(frozen=True, slots=True)
class _Renderer:
    describe_source: Callable[[KeyPath], str] | None
    show_secret: Callable[[KeyPath], str]
    shows_defaults: bool

    def render_table(self, table: Struct, kind: inspect.StructType, path: KeyPath) -> Iterator[str]:
        """Yield the lines of a table: its plain settings, then the tables within it, as TOML requires."""
        fields = [(field, cast(object, getattr(table, field.name))) for field in list_settings(kind)]
        settings = [
            (field.name, field.type, value)
            for field, value in fields
            if value is not None and value != "" and (self.shows_defaults or value != _get_default(field))
        ]
        for name, setting_type, value in settings:
            if not _holds_tables(value, setting_type):
                yield self._render_line(name, value, setting_type, (*path, name))
        for name, setting_type, value in settings:
            if _holds_tables(value, setting_type):
                yield from self._render_tables(value, setting_type, (*path, name))

    def _render_line(self, key: str, value: object, kind: Kind, path: KeyPath) -> str:
        source = f"  # {self.describe_source(path)}" if self.describe_source else ""
        return f"{_join_key((key,))} = {self.render_value(value, kind, path)}{source}"

    def _render_tables(self, value: object, kind: Kind, path: KeyPath) -> Iterator[str]:
        chosen = next(iter_alternatives(kind))
        item_type = get_item_type(chosen)
        if isinstance(chosen, inspect.StructType):
            yield from ("", f"[{_join_key(path)}]")
            yield from self.render_table(cast(Struct, value), chosen, path)
        elif isinstance(chosen, inspect.DictType):
            yield from self._render_named_tables(cast(Mapping[str, object], value), chosen, path)
        elif isinstance(item_type, inspect.StructType):
            for element in cast(Sequence[Struct], value):
                yield from ("", f"[[{_join_key(path)}]]")
                yield from self.render_table(element, item_type, path)

    def _render_named_tables(self, table: Mapping[str, object], kind: inspect.DictType, path: KeyPath) -> Iterator[str]:
        if find_struct(kind.value_type) is None and table:
            yield from ("", f"[{_join_key(path)}]")
            for name, value in table.items():
                yield self._render_line(name, value, kind.value_type, (*path, name))
            return
        for name, value in table.items():
            yield from self._render_tables(value, kind.value_type, (*path, name))

    def render_value(self, value: object, kind: Kind, path: KeyPath) -> str:
        _, marks = strip_marks(kind)
        if marks.get("is") in ("secret", "header", "hash"):
            return _quote(self.show_secret(path))
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


def _get_default(field: inspect.Field) -> object:
    factory = cast(object, field.default_factory)
    return cast("Callable[[], object]", factory)() if factory is not NODEFAULT else cast(object, field.default)


def _holds_tables(value: object, kind: Kind) -> bool:
    chosen = next(iter_alternatives(kind))
    item_type = get_item_type(chosen)
    return isinstance(chosen, inspect.StructType | inspect.DictType) or (
        bool(value) and item_type is not None and find_struct(item_type) is not None
    )


def _render_list(texts: Sequence[str]) -> str:
    return f"[{', '.join(_quote(mask_addresses(text, every_parameter=True)) for text in texts)}]"


def _join_key(path: KeyPath) -> str:
    return ".".join(key if _PLAIN_KEY.fullmatch(key) else _quote(key) for key in map(str, path))


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
