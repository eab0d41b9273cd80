"""Merge the file, the environment variables and the flags into one tree, and remember where each value came from.

The module reads the file and parses texts as the type of their setting asks. `check.py` validates the values.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from msgspec import inspect

from toolyard.core.errors import Misconfigured
from toolyard.core.json_types import is_object
from toolyard.core.settings.checks import KeyPath, Tree
from toolyard.core.settings.kinds import Kind, find_struct, iter_alternatives, parse_text
from toolyard.server.config.check import SourceLocation
from toolyard.server.config.toml_lines import TomlLines

PREFIX = "TOOLYARD_"
MAX_FILE_BYTES = 1 << 20
_AFTER_THE_FILE = 1 << 31
"""The line of values that are not in the file: complaints are sorted by line, and these come last."""
_KUBERNETES_VARIABLE = re.compile(r"TOOLYARD_(?:SERVICE_(?:HOST|PORT)|PORT_[0-9]+_)")
"""Variables that Kubernetes sets in pods for a service named toolyard; it also sets TOOLYARD_PORT=tcp://…."""


class Layers:
    """The merged tree of the file, the variables and the flags, in that order: later layers replace earlier ones."""

    def __init__(
        self, root: inspect.StructType, file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]
    ) -> None:
        self.tree: Tree = {}
        self._file = file
        self._origins: dict[KeyPath, str] = {}
        self._lines = TomlLines("")
        if file is not None:
            text = _read_file(file)
            self.tree = _parse_toml(text, file)
            self._lines = TomlLines(text)
        for variable in sorted(environment):
            if variable.startswith(PREFIX) and not _is_ignored(variable, environment[variable]):
                words = variable.removeprefix(PREFIX).lower().split("__")
                self._put(variable, words, environment[variable], root)
        for flag, value in flags.items():
            if value is not None:
                self._put(f"--{flag.replace('_', '-')}", flag.split("."), value, root)

    def locate(self, path: KeyPath) -> SourceLocation:
        """Return the origin of the value at this path."""
        if origin := self._find_origin(path) or self._find_origin_below(path):
            return SourceLocation(_AFTER_THE_FILE, origin)
        if self._file is None:
            return SourceLocation(_AFTER_THE_FILE, "the configuration")
        line = self._lines.find_line(path)
        return SourceLocation(line, f"{self._file} line {line}")

    def describe_source(self, path: KeyPath) -> str:
        """Return where a setting comes from: a file and its line, a variable, a flag, or its default."""
        table: object = self.tree
        for key in path:
            if not is_object(table) or key not in table:
                return "default"
            table = table[str(key)]
        return self.locate(path).name

    def is_from_file(self, path: KeyPath) -> bool:
        return not self._find_origin(path)

    def get_base(self, path: KeyPath) -> Path:
        """Return the folder that a relative file path in this setting is relative to."""
        return Path.cwd() if self._file is None or self._find_origin(path) else self._file.parent

    def _find_origin(self, path: KeyPath) -> str:
        return next((self._origins[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self._origins), "")

    def _find_origin_below(self, path: KeyPath) -> str:
        """Return the variable or flag that created the table at this path, or "" if the file contains the table."""
        for length in range(len(path), 0, -1):
            if self._lines.contains(path[:length]):
                break
            if below := [origin for key, origin in self._origins.items() if key[:length] == path[:length]]:
                return below[0]
        return ""

    def _put(self, origin: str, words: list[str], value: object, root: inspect.StructType) -> None:
        path, kind = _resolve_path(words, root, self.tree)
        if isinstance(value, str):
            value = parse_text(value, kind) if kind else value
        elif isinstance(value, tuple | set | frozenset):
            value = list(cast("tuple[object, ...]", value))
        self._set(self.tree, path, 0, value, origin)

    def _set(self, table: Tree, path: tuple[str, ...], depth: int, value: object, origin: str) -> None:
        """Set a value, or merge each value of a table. A table replaces a value that is no table."""
        key = path[depth]
        last = depth + 1 == len(path)
        if last and not is_object(value):
            table[key] = value
            self._origins[path] = origin
            return
        within = table.setdefault(key, {})
        if not is_object(within):
            within = table[key] = {}
            self._origins[path[: depth + 1]] = origin
        if last and is_object(value):
            for name, inner in value.items():
                self._set(within, (*path, name), depth + 1, inner, origin)
        else:
            self._set(within, path, depth + 1, value, origin)


def _is_ignored(variable: str, value: str) -> bool:
    """Return whether a variable sets nothing: it is empty, or Kubernetes made it."""
    if not value or _KUBERNETES_VARIABLE.match(variable):
        return True
    return variable == "TOOLYARD_PORT" and "://" in value


def _resolve_path(words: list[str], root: Kind, tree: object) -> tuple[tuple[str, ...], Kind | None]:
    """Return the path that the words of a variable name, and the type of the setting there.

    The type is None if there is no such setting. `tree` is the file's content, for the spelling of names in it.
    """
    path: list[str] = []
    kind: Kind | None = root
    while words and kind is not None:
        table, names = find_struct(kind), _get_value_type(kind)
        if table is not None:
            length, key = 1, words[0]
            kind = next((field.type for field in table.fields if field.name == key), None)
        elif names is not None:
            length = _count_name_words(words, names)
            key = _match_file_spelling("__".join(words[:length]), tree)
            kind = names
        else:
            break
        tree = tree.get(key) if is_object(tree) else None
        path.append(key)
        words = words[length:]
    return (*path, *words), None if words else kind


def _get_value_type(kind: Kind) -> Kind | None:
    """Return the type of the values in a table with free names, or None if the type is no such table."""
    return next((choice.value_type for choice in iter_alternatives(kind) if isinstance(choice, inspect.DictType)), None)


def _count_name_words(words: list[str], kind: Kind) -> int:
    """Return how many words belong to a free name, which may contain "__": it ends before the first setting."""
    table = find_struct(kind)
    if table is None:
        return len(words)
    settings = {field.name for field in table.fields}
    return next((number for number in range(1, len(words)) if words[number] in settings), 1)


def _match_file_spelling(name: str, table: object) -> str:
    """Return the name as the file spells it: a variable's name has no lower case and no hyphens."""
    written = table if is_object(table) else {}
    return next((key for key in written if key.lower().replace("-", "_") == name.replace("-", "_").lower()), name)


def _read_file(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise Misconfigured(f"{file}: there is no such file") from None
    except (OSError, ValueError) as error:
        raise Misconfigured(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_FILE_BYTES:
        raise Misconfigured(f"{file} is larger than {MAX_FILE_BYTES >> 20} MiB: that is not a configuration")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Misconfigured(f"{file} line {line}: this is not UTF-8") from None


def _parse_toml(text: str, file: Path) -> Tree:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # tomllib puts the position at the end of its message; ours stands in front, as in all other complaints.
        parts = re.fullmatch(r"(.*) \(at (?:line ([0-9]+), column ([0-9]+)|end of document)\)", str(error), re.DOTALL)
        if parts is None:
            raise Misconfigured(f"{file}: {error}") from None
        line = parts[2] or str(text.rstrip("\n").count("\n") + 1)
        raise Misconfigured(f"{file} line {line}: {parts[1]}{f' (column {parts[3]})' * bool(parts[3])}") from None
    except RecursionError:
        raise Misconfigured(f"{file} is nested too deeply") from None
    except ValueError:  # an integer with more digits than Python reads
        raise Misconfigured(f"{file} holds a number that is too long") from None
