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
from toolyard.server.config.kinds import Kind, alternatives, bare, described, fits, item_of, named, structure

MOST_COMPLAINTS = 20
MOST_LETTERS = 80
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")

KeyPath = tuple[str | int, ...]
Tree = dict[str, object]
Change = Callable[[str, KeyPath, str], str]
"""Given a text's mark, its path and the text, what it stands for. Raises ValueError with what is wrong with it."""


@runtime_checkable
class Checked(Protocol):
    """A table with rules that concern several of its settings."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """For each rule that is broken, the setting and what is wrong with it."""
        ...


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a value came from: a line of the file, or the variable or flag."""

    line: int
    name: str


@dataclass(slots=True)
class Check:
    """One pass over a tree of values."""

    place: Callable[[KeyPath], Place]
    change: Change
    root: inspect.StructType
    _complaints: list[tuple[Place, Callable[[], str]]] = field(
        default_factory=lambda: list[tuple[Place, Callable[[], str]]]()
    )

    def tree(self, tree: Tree) -> Tree:
        """The tree with its texts changed as their marks say. Raises Misconfigured if anything is wrong."""
        checked = self._table(tree, self.root, ())
        if self._complaints:
            raise Misconfigured(self._told())
        return checked

    def _told(self) -> str:
        first = sorted(self._complaints, key=lambda complaint: complaint[0])[:MOST_COMPLAINTS]
        lines = [f"{place.name}: {said()}" for place, said in first]
        if more := len(self._complaints) - len(first):
            lines.append(f"… and {more} more")
        return "\n".join(lines)

    def _complain(self, path: KeyPath, said: Callable[[], str]) -> None:
        self._complaints.append((self.place(path), said))

    def _value(self, value: object, kind: Kind, path: KeyPath) -> object:
        chosen, marks = bare(_chosen(value, kind))
        match chosen, value:
            case inspect.StructType(), dict():
                return self._table(cast(Tree, value), chosen, path)
            case inspect.DictType(), dict():
                return self._names(cast(Tree, value), chosen, path)
            case ((inspect.VarTupleType() | inspect.FrozenSetType()), list()):
                return self._list(cast(list[object], value), chosen, path, kind)
            case _:
                return self._plain(value, kind, path, str(marks.get("is", "")))

    def _table(self, table: Tree, kind: inspect.StructType, path: KeyPath) -> Tree:
        before = len(self._complaints)
        fields = {one.name: one for one in kind.fields}
        checked: Tree = {}
        for key, value in table.items():
            if key in fields:
                checked[key] = self._value(value, fields[key].type, (*path, key))
            else:
                self._complain((*path, key), lambda key=key: self._unknown(key, list(fields), path))
        for name, one in fields.items():
            if one.required and name not in table:
                self._complain(path, lambda name=name: f"{label(path)} needs {label((name,))}")
        if len(self._complaints) == before:
            self._rules(checked, kind, path)
        return checked

    def _rules(self, checked: Tree, kind: inspect.StructType, path: KeyPath) -> None:
        made = msgspec.convert(checked, kind.cls)
        if isinstance(made, Checked):
            for name, said in made.problems():
                self._complain((*path, name), lambda name=name, said=said: f"{label((*path, name))} {said}")

    def _names(self, table: Tree, kind: inspect.DictType, path: KeyPath) -> Tree:
        checked: Tree = {}
        for key, value in table.items():
            if not fits(key, kind.key_type):
                says = described(kind.key_type)
                self._complain(
                    (*path, key), lambda key=key, says=says: f"{label((*path, key))}: the name must be {says}"
                )
            checked[key] = self._value(value, kind.value_type, (*path, key))
        return checked

    def _list(self, items: list[object], chosen: Kind, path: KeyPath, kind: Kind) -> object:
        item = item_of(chosen)
        if item is None or (structure(item) is None and not fits(items, chosen)):
            return self._plain(items, kind, path, "")
        return [self._value(one, item, (*path, number)) for number, one in enumerate(items)]

    def _plain(self, value: object, kind: Kind, path: KeyPath, mark: str) -> object:
        if not fits(value, kind):
            self._complain(path, lambda: f"{label(path)} must be {described(kind)}, not {named(value)}")
        elif mark and isinstance(value, str):
            try:
                return self.change(mark, path, value)
            except ValueError as error:
                said = f"{label(path)} {error}"
                self._complain(path, lambda: said)
        return value

    def _unknown(self, key: str, known: Sequence[str], path: KeyPath) -> str:
        told = f"{label((*path, key))} is not a setting"
        if near := difflib.get_close_matches(key[:MOST_LETTERS].lower(), known, n=1):
            return f"{told}; did you mean {near[0]}?"
        if elsewhere := next((other for other in self._everywhere() if other[-1] == key), None):
            return f"{told}; did you mean {label(elsewhere)}{' (above the first table)' * (len(elsewhere) == 1)}?"
        return f"{told}; the settings here are {', '.join(known)}"

    def _everywhere(self) -> Iterator[tuple[str, ...]]:
        """The settings at the top and in the tables that have one name."""
        for one in self.root.fields:
            yield (one.name,)
        for one in self.root.fields:
            table = structure(one.type)
            yield from ((one.name, inner.name) for inner in (table.fields if table else ()))


def label(path: KeyPath) -> str:
    """A path as the file would write it, cut where it is absurdly long."""
    told = ".".join(
        key if _PLAIN_KEY.fullmatch(key) else json.dumps(key[:MOST_LETTERS]) for key in path if isinstance(key, str)
    )
    return told if len(told) <= MOST_LETTERS else f"{told[:MOST_LETTERS]}…"


def _chosen(value: object, kind: Kind) -> Kind:
    """The alternative that a value of this shape is meant for."""
    choices = list(alternatives(kind))
    if len(choices) == 1:
        return choices[0]
    return next((one for one in choices if fits(value, one)), kind)
