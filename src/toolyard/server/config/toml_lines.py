"""Find the line of a key in a TOML text. The text must be one that tomllib accepts; its values are skipped."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field

Path = Sequence[str | int]
"""The path of a value in tomllib's result: keys, and an index for each array of tables."""

# No text makes these patterns backtrack: what repeats is possessive (`++`, `*+`), and each turn of a repeated group
# begins with a character that nothing else takes. The groups themselves are not possessive: before Python 3.11.5 such
# a group ends early if it holds an alternative or a lookahead (gh-106052).
_BETWEEN = re.compile(r"[ \t\n]*+(?:#[^\n]*+[ \t\n]*+)*")
_SPACE = re.compile(r"[ \t]*+")
_BARE = re.compile(r"[A-Za-z0-9_-]++")
_STRING = r"""'[^'\n]*+'|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*\""""
_QUOTED = re.compile(_STRING)
_VALUE_PART = re.compile(  # a closing """ may follow one or two quotes of the text
    r'''"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*"""(?:"{0,2}+)'''
    r"""|'{3}[^']*+(?:'(?!'')[^']*+)*'{3}(?:'{0,2}+)"""
    rf"""|{_STRING}"""
    r"""|\#[^\n]*+|[\[{]|[\]}]|\n|[^"'\#\[\]{}\n]++""",
    re.DOTALL,
)


@dataclass(slots=True)
class _Node:
    line: int
    children: "dict[str, _Node]" = field(default_factory=lambda: dict[str, _Node]())
    elements: "list[_Node]" = field(default_factory=lambda: list[_Node]())
    """The tables of an array of tables."""

    def get_or_add_child(self, key: str, line: int) -> "_Node":
        """Return the node under a key; in an array of tables, the one in its last table."""
        table = self.elements[-1] if self.elements else self
        return table.children.setdefault(key, _Node(line))

    def find_child(self, key: str | int) -> "_Node | None":
        if isinstance(key, int):
            return self.elements[key] if 0 <= key < len(self.elements) else None
        return self.children.get(key)


class TomlLines:
    """The lines of the keys in a text. Keys inside a value (an inline table, an array) have the line of its key."""

    def __init__(self, text: str) -> None:
        self._text = text.replace("\r\n", "\n")
        self._at = 0
        self._line = 1
        self._root = _Node(1)
        table = self._root
        while self._skip(_BETWEEN) < len(self._text):
            if self._text.startswith("[", self._at):
                table = self._read_header()
            else:
                self._read_pair(table)

    def find_line(self, path: Path) -> int:
        """Return the line of the last part of the path that the text contains; 1 if it contains none."""
        return self._find_node(path)[0].line

    def contains(self, path: Path) -> bool:
        """Return whether the text contains the whole path."""
        return self._find_node(path)[1] == len(path)

    def _find_node(self, path: Path) -> tuple[_Node, int]:
        node = self._root
        for number, key in enumerate(path):
            inner = node.find_child(key)
            if inner is None:
                return node, number
            node = inner
        return node, len(path)

    def _read_header(self) -> _Node:
        array = self._text.startswith("[[", self._at)
        line = self._line
        self._at += 2 if array else 1
        node = self._descend(self._root, line)
        self._at += 2 if array else 1
        if array:
            node.elements.append(_Node(line))
        return node

    def _read_pair(self, table: _Node) -> None:
        self._descend(table, self._line)
        self._at += 1  # the equals sign
        depth = 0
        while self._at < len(self._text):
            part = _VALUE_PART.match(self._text, self._at)
            if part is None or (part[0] == "\n" and depth == 0):
                break
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(part[0], 0)
            self._advance(part.end())

    def _descend(self, node: _Node, line: int) -> _Node:
        """Read a dotted key, and return the node that it names below `node`."""
        while True:
            node = node.get_or_add_child(self._read_key(), line)
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return node
            self._at += 1

    def _read_key(self) -> str:
        self._skip(_SPACE)
        if bare := _BARE.match(self._text, self._at):
            self._at = bare.end()
            return bare[0]
        quoted = _QUOTED.match(self._text, self._at)
        if quoted is None:
            raise ValueError(f"line {self._line}: no key where one must be")
        self._at = quoted.end()
        return str(tomllib.loads(f"key = {quoted[0]}")["key"])

    def _skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self._text, self._at)
        self._advance(match.end() if match else self._at)
        return self._at

    def _advance(self, to: int) -> None:
        self._line += self._text.count("\n", self._at, to)
        self._at = to
