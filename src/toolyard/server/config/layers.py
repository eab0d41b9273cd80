"""Puts the file, the variables and the flags on top of each other, and remembers where each value came from.

It reads the file and turns texts into values where the type asks for it; whether they are right is for others to say.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from msgspec import inspect

from toolyard.core.errors import Misconfigured
from toolyard.server.config.check import KeyPath, SourceLocation, Tree
from toolyard.server.config.kinds import Kind, find_struct, iter_alternatives, parse_text
from toolyard.server.config.toml_lines import TomlLines

PREFIX = "TOOLYARD_"
MAX_FILE_BYTES = 1 << 20
_AFTER_THE_FILE = 1 << 31
_KUBERNETES_VARIABLE = re.compile(r"TOOLYARD_(?:SERVICE_(?:HOST|PORT)|PORT_[0-9]+_)")
"""What Kubernetes sets in every pod beside a service named toolyard; it sets TOOLYARD_PORT=tcp://… as well."""


class Layers:
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
        """Where the value at this path comes from."""
        if origin := self._find_origin(path) or self._find_origin_below(path):
            return SourceLocation(_AFTER_THE_FILE, origin)
        if self._file is None:
            return SourceLocation(_AFTER_THE_FILE, "the configuration")
        line = self._lines.find_line(path)
        return SourceLocation(line, f"{self._file} line {line}")

    def is_from_file(self, path: KeyPath) -> bool:
        return not self._find_origin(path)

    def get_base(self, path: KeyPath) -> Path:
        """What a relative path there is relative to."""
        return Path.cwd() if self._file is None or self._find_origin(path) else self._file.parent

    def _find_origin(self, path: KeyPath) -> str:
        return next((self._origins[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self._origins), "")

    def _find_origin_below(self, path: KeyPath) -> str:
        """For a table that is not in the file, who made it."""
        for length in range(len(path), 0, -1):
            if self._lines.contains(path[:length]):
                break
            if below := [self._origins[one] for one in self._origins if one[:length] == path[:length]]:
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
        """Set a value, or each value of a table; a table takes the place of what is none."""
        key = path[depth]
        last = depth + 1 == len(path)
        if last and not isinstance(value, dict):
            table[key] = value
            self._origins[path] = origin
            return
        if not isinstance(table.setdefault(key, {}), dict):
            table[key] = {}
            self._origins[path[: depth + 1]] = origin
        within = cast(Tree, table[key])
        if last:
            for name, one in cast(Tree, value).items():
                self._set(within, (*path, name), depth + 1, one, origin)
        else:
            self._set(within, path, depth + 1, cast(object, value), origin)


def _is_ignored(variable: str, value: str) -> bool:
    """Empty is unset."""
    if not value or _KUBERNETES_VARIABLE.match(variable):
        return True
    return variable == "TOOLYARD_PORT" and "://" in value


def _resolve_path(words: list[str], root: Kind, tree: object) -> tuple[tuple[str, ...], Kind | None]:
    """The path that the words of a variable name, and the kind of the value there, None if there is no such setting."""
    path: list[str] = []
    kind: Kind | None = root
    while words and kind is not None:
        table, names = find_struct(kind), _get_value_type(kind)
        if table is not None:
            length, key = 1, words[0]
            kind = next((one.type for one in table.fields if one.name == key), None)
        elif names is not None:
            length = _count_name_words(words, names)
            key = _match_file_spelling("__".join(words[:length]), tree)
            kind = names
        else:
            break
        tree = cast(Tree, tree).get(key) if isinstance(tree, dict) else None
        path.append(key)
        words = words[length:]
    return (*path, *words), None if words else kind


def _get_value_type(kind: Kind) -> Kind | None:
    """The kind of the values of a table with free names."""
    return next((one.value_type for one in iter_alternatives(kind) if isinstance(one, inspect.DictType)), None)


def _count_name_words(words: list[str], kind: Kind) -> int:
    """A name may hold a double underscore: it ends before the first word that is a setting."""
    table = find_struct(kind)
    if table is None:
        return len(words)
    settings = {one.name for one in table.fields}
    return next((number for number in range(1, len(words)) if words[number] in settings), 1)


def _match_file_spelling(name: str, table: object) -> str:
    """Variables are in capitals and have no hyphens: the file says how the name is really written."""
    written = cast(Tree, table) if isinstance(table, dict) else {}
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
        said = re.fullmatch(r"(.*) \(at (?:line ([0-9]+), column ([0-9]+)|end of document)\)", str(error), re.DOTALL)
        if said is None:
            raise Misconfigured(f"{file}: {error}") from None
        line = said[2] or str(text.rstrip("\n").count("\n") + 1)
        raise Misconfigured(f"{file} line {line}: {said[1]}{f' (column {said[3]})' * bool(said[3])}") from None
    except RecursionError:
        raise Misconfigured(f"{file} is nested too deeply") from None
    except ValueError:  # an integer with more digits than Python reads
        raise Misconfigured(f"{file} holds a number that is too long") from None
