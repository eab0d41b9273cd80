"""The tools that a server with `auth = "caller"` lists for each caller. `pins` decides which of them are accepted.

A caller's listing is used for no other caller, and is kept only as long as that caller's session.
"""

from collections.abc import Iterator, Mapping, Sequence
from weakref import WeakValueDictionary

from msgspec import Struct

from toolyard.core.json_types import Json
from toolyard.venues.mcp.catalog.definitions import hash_definition
from toolyard.venues.mcp.catalog.pins import index_by_name

CallerKey = tuple[str, ...]
"""A tenant and a user; empty for the shared session."""


class ListedDefinition(Struct, frozen=True, eq=False, weakref=True):
    """A definition of a tool; one object for all callers who get it."""

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
        """Return the definitions listed for this caller, by the names on the server; None without a listing."""
        return self._views.get(caller_key)

    def forget(self, caller_key: CallerKey) -> None:
        self._views.pop(caller_key, None)

    def clear(self) -> None:
        self._views.clear()

    def count_definitions(self) -> dict[str, dict[str, tuple[ListedDefinition, int]]]:
        """Return for each tool its listed definitions by hash, each with the number of callers who get it."""
        counts: dict[str, dict[str, tuple[ListedDefinition, int]]] = {}
        for view in self._views.values():
            for remote, listed in view.items():
                tool_counts = counts.setdefault(remote, {})
                tool_counts[listed.hash] = (listed, tool_counts.get(listed.hash, (listed, 0))[1] + 1)
        return counts

    def _intern(self, definition: Json) -> ListedDefinition:
        hash = hash_definition(definition)
        listed = self._interned.get(hash)
        # The hash covers only the pinned fields. Definitions that differ in others must stay apart: MCP clients get
        # them unchanged.
        if listed is None or listed.definition != definition:
            listed = self._interned[hash] = ListedDefinition(definition, hash)
        return listed
