"""Check settings by the marks of their types (`setting_types`), and report everything that is wrong at once. Pure.

No problem repeats a text value, because it may be a secret. Rules that concern several settings come from the checked
types themselves (`HasProblems`).
"""

import difflib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import inspect

from toolyard.core.json_types import is_list, is_object
from toolyard.core.settings.kinds import (
    Kind,
    describe_type,
    describe_value,
    find_struct,
    fits,
    get_item_type,
    iter_alternatives,
    list_choices,
    list_settings,
    strip_marks,
)

MAX_LABEL_CHARS = 80
MAX_PROBLEMS = 20
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")

KeyPath = tuple[str | int, ...]
Tree = dict[str, object]
Transform = Callable[[str, KeyPath, str], str]
"""A function of a text's mark, its path and the text that returns its final form. It raises ValueError with the reason
if the text is wrong."""
SettingProblem = tuple[str | tuple[str, ...], str]
"""A setting of a table, or the path below it, and what is wrong with it."""
FORBIDDEN_CHARACTERS = {"secret": "\0", "header": "\0\r\n"}
"""By mark: a variable of a process ends at a NUL, and a header at the end of its line."""


@runtime_checkable
class HasProblems(Protocol):
    """A table with rules that concern several of its settings."""

    def iter_problems(self) -> Iterator[SettingProblem]:
        """Yield the setting, or the path to it, and what is wrong with it, for each rule that is broken."""
        ...


def check_characters(mark: str, path: KeyPath, text: str) -> str:
    """Return the text. Raise ValueError if it contains a character that its mark forbids. This is a `Transform`."""
    if any(letter in text for letter in FORBIDDEN_CHARACTERS.get(mark, "")):
        raise ValueError("must be one line")
    return text


def list_problems(settings: msgspec.Struct, name: str) -> list[tuple[str, str]]:
    """Return the path below `name` and the message of the first problems of a struct that was not read from a file."""
    kind = inspect.type_info(type(settings))
    assert isinstance(kind, inspect.StructType)
    checker = SettingChecker(kind, check_characters)
    # Through JSON, so that tuples become lists as in a file.
    checker.check(msgspec.json.decode(msgspec.json.encode(settings), type=Tree), (name,))
    return [(format_path(path), build_message()) for path, build_message in checker.problems[:MAX_PROBLEMS]]


@dataclass(slots=True)
class SettingChecker:
    """One pass over a tree of values, which collects problems."""

    root: inspect.StructType
    transform: Transform
    problems: list[tuple[KeyPath, Callable[[], str]]] = field(
        default_factory=lambda: list[tuple[KeyPath, Callable[[], str]]]()
    )
    """Where each problem is, and a function that builds its message: suggestions are slow to compute, and not all
    messages are shown."""

    def check(self, tree: Tree, path: KeyPath = ()) -> Tree:
        """Return the tree with its texts transformed as their marks say. It is valid if there are no problems."""
        return self._check_table(tree, self.root, path)

    def _complain(self, path: KeyPath, build_message: Callable[[], str]) -> None:
        self.problems.append((path, build_message))

    def _check_value(self, value: object, kind: Kind, path: KeyPath) -> object:
        chosen, marks = strip_marks(_choose_alternative(value, kind))
        if isinstance(chosen, inspect.StructType) and is_object(value):
            return self._check_table(value, chosen, path)
        if isinstance(chosen, inspect.DictType) and is_object(value):
            return self._check_names(value, chosen, path)
        if isinstance(chosen, inspect.VarTupleType | inspect.FrozenSetType) and is_list(value):
            return self._check_list(value, chosen, path, kind)
        return self._check_plain(value, kind, path, str(marks.get("is", "")))

    def _check_table(self, table: Tree, kind: inspect.StructType, path: KeyPath) -> Tree:
        problems_before = len(self.problems)
        fields = {setting.name: setting for setting in list_settings(kind)}
        checked: Tree = {}
        for key, value in table.items():
            if key in fields:
                checked[key] = self._check_value(value, fields[key].type, (*path, key))
            else:
                self._complain((*path, key), lambda key=key: self._describe_unknown(key, list(fields), path))
        for name, setting in fields.items():
            if setting.required and name not in table:
                self._complain(path, lambda name=name: f"{format_path(path)} needs {format_path((name,))}")
        if len(self.problems) == problems_before:  # only a table of valid values can become its struct
            self._check_rules(checked, kind, path)
        return checked

    def _check_rules(self, checked: Tree, kind: inspect.StructType, path: KeyPath) -> None:
        struct = msgspec.convert(checked, kind.cls)
        if isinstance(struct, HasProblems):
            for name, problem in struct.iter_problems():
                where = (*path, name) if isinstance(name, str) else (*path, *name)
                self._complain(where, lambda where=where, problem=problem: f"{format_path(where)} {problem}")

    def _check_names(self, table: Tree, kind: inspect.DictType, path: KeyPath) -> Tree:
        checked: Tree = {}
        for key, value in table.items():
            if not fits(key, kind.key_type):
                expected = describe_type(kind.key_type)
                self._complain(
                    (*path, key),
                    lambda key=key, expected=expected: f"{format_path((*path, key))}: the name must be {expected}",
                )
            checked[key] = self._check_value(value, kind.value_type, (*path, key))
        return checked

    def _check_list(self, items: list[object], chosen: Kind, path: KeyPath, kind: Kind) -> object:
        item_type = get_item_type(chosen)
        if item_type is None or (find_struct(item_type) is None and not fits(items, chosen)):
            return self._check_plain(items, kind, path, "")
        return [self._check_value(item, item_type, (*path, number)) for number, item in enumerate(items)]

    def _check_plain(self, value: object, kind: Kind, path: KeyPath, mark: str) -> object:
        if not fits(value, kind):
            self._complain(path, lambda: _describe_misfit(value, kind, path))
        elif mark and isinstance(value, str):
            try:
                return self.transform(mark, path, value)
            except ValueError as error:
                message = f"{format_path(path)} {error}"
                self._complain(path, lambda: message)
        return value

    def _describe_unknown(self, key: str, settings: Sequence[str], path: KeyPath) -> str:
        message = f"{format_path((*path, key))} is not a setting"
        if near := difflib.get_close_matches(key[:MAX_LABEL_CHARS].lower(), settings, n=1):
            return f"{message}; did you mean {near[0]}?"
        if elsewhere := next((other for other in self._iter_settings() if other[-1] == key), None):
            return (
                f"{message}; did you mean {format_path(elsewhere)}{' (above the first table)' * (len(elsewhere) == 1)}?"
            )
        return f"{message}; the settings here are {', '.join(settings)}"

    def _iter_settings(self) -> Iterator[tuple[str, ...]]:
        """Yield the paths of the settings at the top, then of those in tables with a fixed name."""
        for setting in self.root.fields:
            yield (setting.name,)
        for setting in self.root.fields:
            table = find_struct(setting.type)
            yield from ((setting.name, inner.name) for inner in (list_settings(table) if table else ()))


def _describe_misfit(value: object, kind: Kind, path: KeyPath) -> str:
    message = f"{format_path(path)} must be {describe_type(kind)}, not {describe_value(value)}"
    entries = value if is_list(value) else [value]
    choices = list_choices(kind)
    wrong = [entry[:MAX_LABEL_CHARS] for entry in entries if isinstance(entry, str) and entry not in choices]
    near = [match for word in wrong for match in difflib.get_close_matches(word, choices, n=1)]
    return f"{message}; did you mean {near[0]!r}?" if near else message


def format_path(path: KeyPath) -> str:
    """Return a path as a TOML file writes it, cut after MAX_LABEL_CHARS characters."""
    text = ".".join(
        key if _PLAIN_KEY.fullmatch(key) else json.dumps(key[:MAX_LABEL_CHARS]) for key in path if isinstance(key, str)
    )
    return text if len(text) <= MAX_LABEL_CHARS else f"{text[:MAX_LABEL_CHARS]}…"


def _choose_alternative(value: object, kind: Kind) -> Kind:
    """Return the alternative of a union that the value fits, or the whole union if it fits none."""
    choices = list(iter_alternatives(kind))
    if len(choices) == 1:
        return choices[0]
    return next((choice for choice in choices if fits(value, choice)), kind)
