"""Checks a tree of plain values against a type, and says everything that is wrong with it at once.

It knows where each value came from, so that each complaint names its place, and never repeats a text: it may be a
secret. What the settings mean is for the caller to say.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast, runtime_checkable

import msgspec
from msgspec import inspect

from toolyard.core.errors import Misconfigured
from toolyard.server.config.kinds import (
    Kind,
    describe_type,
    describe_value,
    find_struct,
    fits,
    get_item_type,
    iter_alternatives,
    strip_marks,
)

MAX_COMPLAINTS = 20
MAX_LABEL_CHARS = 80
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")

KeyPath = tuple[str | int, ...]
Tree = dict[str, object]
Transform = Callable[[str, KeyPath, str], str]
"""Given a text's mark, its path and the text, what it stands for. Raises ValueError with what is wrong with it."""


@runtime_checkable
class HasProblems(Protocol):
    """A table with rules that concern several of its settings."""

    def iter_problems(self) -> Iterator[tuple[str, str]]:
        """For each rule that is broken, the setting and what is wrong with it."""
        ...


@dataclass(frozen=True, slots=True, order=True)
class SourceLocation:
    """Where a value came from: a line of the file, or the variable or flag."""

    line: int
    name: str


@dataclass(slots=True)
class ConfigChecker:
    """One pass over a tree of values."""

    locate: Callable[[KeyPath], SourceLocation]
    transform: Transform
    root: inspect.StructType
    _complaints: list[tuple[SourceLocation, Callable[[], str]]] = field(
        default_factory=lambda: list[tuple[SourceLocation, Callable[[], str]]]()
    )

    def check(self, tree: Tree) -> Tree:
        """The tree with its texts changed as their marks say. Raises Misconfigured if anything is wrong."""
        checked = self._check_table(tree, self.root, ())
        if self._complaints:
            raise Misconfigured(self._format_complaints())
        return checked

    def _format_complaints(self) -> str:
        first = sorted(self._complaints, key=lambda complaint: complaint[0])[:MAX_COMPLAINTS]
        lines = [f"{place.name}: {said()}" for place, said in first]
        if more := len(self._complaints) - len(first):
            lines.append(f"… and {more} more")
        return "\n".join(lines)

    def _complain(self, path: KeyPath, build_message: Callable[[], str]) -> None:
        self._complaints.append((self.locate(path), build_message))

    def _check_value(self, value: object, kind: Kind, path: KeyPath) -> object:
        chosen, marks = strip_marks(_choose_alternative(value, kind))
        match chosen, value:
            case inspect.StructType(), dict():
                return self._check_table(cast(Tree, value), chosen, path)
            case inspect.DictType(), dict():
                return self._check_names(cast(Tree, value), chosen, path)
            case ((inspect.VarTupleType() | inspect.FrozenSetType()), list()):
                return self._check_list(cast(list[object], value), chosen, path, kind)
            case _:
                return self._check_plain(value, kind, path, str(marks.get("is", "")))

    def _check_table(self, table: Tree, kind: inspect.StructType, path: KeyPath) -> Tree:
        before = len(self._complaints)
        fields = {one.name: one for one in kind.fields}
        checked: Tree = {}
        for key, value in table.items():
            if key in fields:
                checked[key] = self._check_value(value, fields[key].type, (*path, key))
            else:
                self._complain((*path, key), lambda key=key: self._describe_unknown(key, list(fields), path))
        for name, one in fields.items():
            if one.required and name not in table:
                self._complain(path, lambda name=name: f"{format_path(path)} needs {format_path((name,))}")
        if len(self._complaints) == before:
            self._check_rules(checked, kind, path)
        return checked

    def _check_rules(self, checked: Tree, kind: inspect.StructType, path: KeyPath) -> None:
        made = msgspec.convert(checked, kind.cls)
        if isinstance(made, HasProblems):
            for name, said in made.iter_problems():
                self._complain((*path, name), lambda name=name, said=said: f"{format_path((*path, name))} {said}")

    def _check_names(self, table: Tree, kind: inspect.DictType, path: KeyPath) -> Tree:
        checked: Tree = {}
        for key, value in table.items():
            if not fits(key, kind.key_type):
                says = describe_type(kind.key_type)
                self._complain(
                    (*path, key), lambda key=key, says=says: f"{format_path((*path, key))}: the name must be {says}"
                )
            checked[key] = self._check_value(value, kind.value_type, (*path, key))
        return checked

    def _check_list(self, items: list[object], chosen: Kind, path: KeyPath, kind: Kind) -> object:
        item = get_item_type(chosen)
        if item is None or (find_struct(item) is None and not fits(items, chosen)):
            return self._check_plain(items, kind, path, "")
        return [self._check_value(one, item, (*path, number)) for number, one in enumerate(items)]

    def _check_plain(self, value: object, kind: Kind, path: KeyPath, mark: str) -> object:
        if not fits(value, kind):
            self._complain(
                path, lambda: f"{format_path(path)} must be {describe_type(kind)}, not {describe_value(value)}"
            )
        elif mark and isinstance(value, str):
            try:
                return self.transform(mark, path, value)
            except ValueError as error:
                said = f"{format_path(path)} {error}"
                self._complain(path, lambda: said)
        return value

    def _describe_unknown(self, key: str, settings: Sequence[str], path: KeyPath) -> str:
        told = f"{format_path((*path, key))} is not a setting"
        if near := difflib.get_close_matches(key[:MAX_LABEL_CHARS].lower(), settings, n=1):
            return f"{told}; did you mean {near[0]}?"
        if elsewhere := next((other for other in self._iter_settings() if other[-1] == key), None):
            return f"{told}; did you mean {format_path(elsewhere)}{' (above the first table)' * (len(elsewhere) == 1)}?"
        return f"{told}; the settings here are {', '.join(settings)}"

    def _iter_settings(self) -> Iterator[tuple[str, ...]]:
        """The settings at the top and in the tables that have one name."""
        for one in self.root.fields:
            yield (one.name,)
        for one in self.root.fields:
            table = find_struct(one.type)
            yield from ((one.name, inner.name) for inner in (table.fields if table else ()))


def format_path(path: KeyPath) -> str:
    """A path as the file would write it, cut where it is absurdly long."""
    told = ".".join(
        key if _PLAIN_KEY.fullmatch(key) else json.dumps(key[:MAX_LABEL_CHARS]) for key in path if isinstance(key, str)
    )
    return told if len(told) <= MAX_LABEL_CHARS else f"{told[:MAX_LABEL_CHARS]}…"


def _choose_alternative(value: object, kind: Kind) -> Kind:
    """The alternative that a value of this shape is meant for."""
    choices = list(iter_alternatives(kind))
    if len(choices) == 1:
        return choices[0]
    return next((one for one in choices if fits(value, one)), kind)
