"""Maps the name that a model sees to a server and the tool's name on it, and back. Pure.

A name is bound once and kept. A tool may have several: an alias that is configured later is another name of it. Which
of its names is offered depends on the bindings and on the configuration, never on the order of connection.
"""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from toolyard.core.tool_identity import ToolIdentity

MAX_NAME_CHARS = 64
_DISALLOWED = re.compile(r"[^a-zA-Z0-9_-]")


class Router:
    """The names that are bound, and the aliases that are kept for tools which are not listed yet."""

    def __init__(self) -> None:
        self._identities: dict[str, ToolIdentity] = {}
        self._names: dict[ToolIdentity, list[str]] = {}
        self._aliases: dict[str, ToolIdentity] = {}

    def __iter__(self) -> Iterator[tuple[str, ToolIdentity]]:
        return iter(self._identities.items())

    def find_identity(self, name: str) -> ToolIdentity | None:
        return self._identities.get(name)

    def list_names(self, identity: ToolIdentity) -> Sequence[str]:
        """Return all names that are bound to a tool, in the order in which they were bound."""
        return self._names.get(identity, ())

    def list_server_names(self, server: str) -> list[str]:
        return [name for name, identity in self._identities.items() if identity.server == server]

    def bind(self, name: str, identity: ToolIdentity) -> None:
        """Bind a name, unless it is bound already."""
        if name not in self._identities:
            self._identities[name] = identity
            self._names.setdefault(identity, []).append(name)

    def replace_bindings(self, bindings: Mapping[str, ToolIdentity]) -> None:
        """Forget all names, and bind those that are stored."""
        self._identities, self._names = {}, {}
        for name, identity in bindings.items():
            self.bind(name, identity)

    def unbind(self, names: Collection[str]) -> None:
        self.replace_bindings({name: bound for name, bound in self._identities.items() if name not in names})

    def keep_aliases(self, server: str, aliases: Mapping[str, str]) -> None:
        """Keep a server's aliases, by the tools' names on it, until they are bound: no other server's tool gets them.

        So the configuration decides which of two servers with the same alias gets it, not which one connects first.
        """
        self.drop_aliases(server)
        for tool, alias in aliases.items():
            identity = ToolIdentity(server, tool)
            if not self._list_bound(identity, alias):
                self._aliases.setdefault(_shorten_name(alias), identity)

    def drop_aliases(self, server: str) -> None:
        self._aliases = {alias: tool for alias, tool in self._aliases.items() if tool.server != server}

    def choose(self, identity: ToolIdentity, reserved_names: Collection[str] = (), alias: str = "") -> str:
        """Return the name to offer a tool under: one that is bound to it, or else a free one that is yet to be bound.

        That is the alias or the tool's own name, with the server's id before it if that is taken.
        """
        bound = [name for name in self._list_bound(identity, alias) if name not in reserved_names]
        if bound:
            return bound[0]
        for name in _iter_candidates(identity, alias):
            is_kept = self._aliases.get(name, identity) != identity
            if name not in self._identities and name not in reserved_names and not is_kept:
                return name
        raise AssertionError("a hash of server and tool is unique")

    def assign(self, identity: ToolIdentity, reserved_names: Collection[str] = (), alias: str = "") -> str:
        """Choose a name, bind it and return it."""
        name = self.choose(identity, reserved_names, alias)
        self.bind(name, identity)
        return name

    def _list_bound(self, identity: ToolIdentity, alias: str) -> list[str]:
        """Return the names of a tool that it may be offered under, the preferred one first.

        Without an alias that is any of its names. With one, only a name that is made of it.
        """
        names = self.list_names(identity)
        preferred = [name for name in _iter_candidates(identity, alias) if name in names] if names else []
        return preferred if alias else [*preferred, *names]


def _iter_candidates(identity: ToolIdentity, alias: str) -> Iterator[str]:
    plain = alias or identity.tool
    prefixed = _shorten_name(f"{identity.server}__{plain}")
    yield _shorten_name(plain)
    yield prefixed
    yield _append_hash(prefixed, identity)


def _shorten_name(name: str) -> str:
    """Return a name with the characters and the length that every provider accepts; a hash replaces what is cut."""
    allowed = _DISALLOWED.sub("_", name)
    if len(allowed) <= MAX_NAME_CHARS:
        return allowed
    digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{allowed[: MAX_NAME_CHARS - 9]}_{digest}"


def _append_hash(name: str, identity: ToolIdentity) -> str:
    both = f"{identity.server}\0{identity.tool}".encode("utf-8", "replace")
    return f"{name[: MAX_NAME_CHARS - 17]}_{hashlib.blake2b(both, digest_size=8).hexdigest()}"
