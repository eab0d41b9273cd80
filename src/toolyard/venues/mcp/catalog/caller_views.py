"""What each caller gets of a server that is asked for each of them. It does not know what was accepted.

What one caller gets is nobody else's: it is kept beside what the others get, and only as long as that caller's session.
"""

from collections.abc import Iterator, Mapping, Sequence
from weakref import WeakValueDictionary

from msgspec import Struct

from toolyard.venues.mcp.catalog.definitions import Json, pin_of
from toolyard.venues.mcp.catalog.pins import by_name

Who = tuple[str, ...]
"""A tenant and a user; of a session that is nobody's own, nothing."""


class Seen(Struct, frozen=True, eq=False, weakref=True):
    """A definition, once for however many callers get it."""

    definition: Json
    hash: str


class Views:
    def __init__(self) -> None:
        self._views: dict[Who, Mapping[str, Seen]] = {}
        self._seen: WeakValueDictionary[str, Seen] = WeakValueDictionary()

    def __iter__(self) -> Iterator[Who]:
        return iter(self._views)

    def see(self, who: Who, listing: Sequence[Json]) -> None:
        self._views[who] = {remote: self._one(definition) for remote, definition in by_name(listing).items()}

    def of(self, who: Who) -> Mapping[str, Seen] | None:
        """What this caller gets, by the names there; None if that is not known."""
        return self._views.get(who)

    def forget(self, who: Who) -> None:
        self._views.pop(who, None)

    def clear(self) -> None:
        self._views.clear()

    def definitions(self) -> dict[str, dict[str, tuple[Seen, int]]]:
        """Every definition of every tool that somebody gets, by its hash, and how many callers get it."""
        found: dict[str, dict[str, tuple[Seen, int]]] = {}
        for view in self._views.values():
            for remote, seen in view.items():
                of_tool = found.setdefault(remote, {})
                of_tool[seen.hash] = (seen, of_tool.get(seen.hash, (seen, 0))[1] + 1)
        return found

    def _one(self, definition: Json) -> Seen:
        hash = pin_of(definition)
        known = self._seen.get(hash)
        if known is None or known.definition != definition:  # what is not pinned may differ, and is passed on, too
            known = self._seen[hash] = Seen(definition, hash)
        return known
