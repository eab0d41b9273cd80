"""Maps the name that a model sees to a server and the tool's name on it, and back. Pure.

A name is assigned once and kept: a server that is added later, with a tool of the same name, changes no other name.
"""

import hashlib
import re
from collections.abc import Collection, Iterator

from msgspec import Struct

MAX_NAME_CHARS = 64
_DISALLOWED = re.compile(r"[^a-zA-Z0-9_-]")


class Route(Struct, frozen=True):
    """A server, and a tool's name on it."""

    server: str
    tool: str


class Router:
    """The names assigned so far."""

    def __init__(self) -> None:
        self._routes: dict[str, Route] = {}
        self._names: dict[Route, str] = {}

    def __iter__(self) -> Iterator[tuple[str, Route]]:
        return iter(self._routes.items())

    def find_route(self, name: str) -> Route | None:
        return self._routes.get(name)

    def find_name(self, route: Route) -> str | None:
        return self._names.get(route)

    def reserve(self, name: str, route: Route) -> None:
        """Record a name that was assigned earlier, perhaps by an earlier process, unless it is taken."""
        if name not in self._routes and route not in self._names:
            self._routes[name] = route
            self._names[route] = name

    def assign(self, route: Route, reserved_names: Collection[str] = (), preferred: str = "") -> str:
        """Return the tool's name for models: `preferred` or its own; prefixed with the server's id if it is taken."""
        if assigned := self._names.get(route):
            return assigned
        for name in _iter_candidates(route, preferred or route.tool):
            if name not in self._routes and name not in reserved_names:
                self.reserve(name, route)
                return name
        raise AssertionError("a hash of server and tool is unique")

    def remove(self, route: Route) -> None:
        if (name := self._names.pop(route, None)) is not None:
            del self._routes[name]

    def remove_server(self, server: str) -> None:
        for route in [route for route in self._names if route.server == server]:
            self.remove(route)


def _iter_candidates(route: Route, preferred: str) -> Iterator[str]:
    prefixed = _shorten_name(f"{route.server}__{preferred}")
    yield _shorten_name(preferred)
    yield prefixed
    yield _append_hash(prefixed, route)


def _shorten_name(name: str) -> str:
    """Return a name with the characters and the length that every provider accepts; a hash replaces what is cut."""
    allowed = _DISALLOWED.sub("_", name)
    if len(allowed) <= MAX_NAME_CHARS:
        return allowed
    digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{allowed[: MAX_NAME_CHARS - 9]}_{digest}"


def _append_hash(name: str, route: Route) -> str:
    both = f"{route.server}\0{route.tool}".encode("utf-8", "replace")
    return f"{name[: MAX_NAME_CHARS - 17]}_{hashlib.blake2b(both, digest_size=8).hexdigest()}"
