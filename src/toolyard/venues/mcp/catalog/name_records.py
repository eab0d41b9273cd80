"""The stored bindings of names to tools. Replicas that share a store share them: a name is bound once for all.

Each name is a record of its own, so that the store decides which of two replicas binds it. A binding outlives the
session, the pins and the server of its tool: only a person frees it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from toolyard.core.store import SharedKeyValue
from toolyard.core.tool_identity import TOOL_NAMES, ToolIdentity
from toolyard.venues.mcp.catalog.router import Router

_decoder = msgspec.json.Decoder(ToolIdentity)


class NameRecords:
    def __init__(self, store: SharedKeyValue, router: Router, reserved_names: Callable[[], Collection[str]]) -> None:
        self._store = store
        self._router = router
        self._reserved_names = reserved_names

    async def read(self) -> None:
        """Read the bindings of all processes."""
        stored = await self._store.list_records(TOOL_NAMES)
        self._router.replace_bindings({name: _decoder.decode(body) for name, body in stored})

    async def bind(self, server: str, tools: Iterable[str], aliases: Mapping[str, str]) -> dict[str, str]:
        """Return the names under which tools of a server are offered, and store those that were not bound before."""
        identities = {tool: ToolIdentity(server, tool) for tool in tools}
        while True:
            # Of two replicas that want a name at once, one gets it: the other chooses again.
            names, unbound = dict[str, str](), dict[str, ToolIdentity]()
            reserved_names = self._reserved_names()
            for tool, identity in identities.items():
                name = self._router.choose(identity, {*reserved_names, *unbound}, aliases.get(tool, ""))
                names[tool] = name
                if self._router.find_identity(name) != identity:
                    unbound[name] = identity
            if not unbound:
                return names
            await self._store_bindings(unbound)

    async def adopt(self, names: Mapping[str, ToolIdentity]) -> None:
        """Bind the names that a version without stored bindings has given to tools, unless they are bound by now."""
        unbound = {
            name: identity
            for name, identity in names.items()
            if self._router.find_identity(name) is None and not self._router.list_names(identity)
        }
        if unbound:
            await self._store_bindings(unbound)

    async def unbind(self, names: Collection[str]) -> None:
        for name in names:
            await self._store.delete_record(TOOL_NAMES, name)
        if names:
            self._router.unbind(names)

    async def _store_bindings(self, bindings: Mapping[str, ToolIdentity]) -> None:
        bodies = {name: msgspec.json.encode(identity) for name, identity in bindings.items()}
        for name, body in (await self._store.add_records(TOOL_NAMES, bodies)).items():
            self._router.bind(name, _decoder.decode(body))
