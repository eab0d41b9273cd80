"""What each caller gets of a server that is asked for each of them. It does not know what was accepted.

What one caller gets is nobody else's: it is kept beside what the others get, and only as long as that caller's session.
"""

from collections.abc import Iterator, Mapping, Sequence
from weakref import WeakValueDictionary

from msgspec import Struct

from toolyard.venues.mcp.catalog.definitions import Json, hash_definition
from toolyard.venues.mcp.catalog.pins import index_by_name

CallerKey = tuple[str, ...]
"""A tenant and a user; of a session that is nobody's own, nothing."""


class ListedDefinition(Struct, frozen=True, eq=False, weakref=True):
    """A definition, once for however many callers get it."""

    definition: Json
    hash: str


class CallerViews:
    def __init__(self) -> None:
        self._views: dict[CallerKey, Mapping[str, ListedDefinition]] = {}
        self._interned: WeakValueDictionary[str, ListedDefinition] = WeakValueDictionary()

    def __iter__(self) -> Iterator[CallerKey]:
        return iter(self._views)

    def update(self, caller_key: CallerKey, listing: Sequence[Json]) -> None:
        self._views[caller_key] = {
            remote: self._intern(definition) for remote, definition in index_by_name(listing).items()
        }

    def get(self, caller_key: CallerKey) -> Mapping[str, ListedDefinition] | None:
        """What this caller gets, by the names there; None if that is not known."""
        return self._views.get(caller_key)

    def forget(self, caller_key: CallerKey) -> None:
        self._views.pop(caller_key, None)

    def clear(self) -> None:
        self._views.clear()

    def count_definitions(self) -> dict[str, dict[str, tuple[ListedDefinition, int]]]:
        """Every definition of every tool that somebody gets, by its hash, and how many callers get it."""
        found: dict[str, dict[str, tuple[ListedDefinition, int]]] = {}
        for view in self._views.values():
            for remote, seen in view.items():
                of_tool = found.setdefault(remote, {})
                of_tool[seen.hash] = (seen, of_tool.get(seen.hash, (seen, 0))[1] + 1)
        return found

    def _intern(self, definition: Json) -> ListedDefinition:
        hash = hash_definition(definition)
        known = self._interned.get(hash)
        if known is None or known.definition != definition:  # what is not pinned may differ, and is passed on, too
            known = self._interned[hash] = ListedDefinition(definition, hash)
        return known
