"""The stored names of tools and pins of servers. Replicas that share a store share them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager

import msgspec

from toolyard.core.store import SharedKeyValue
from toolyard.core.tool_identity import TOOL_NAMES, ToolIdentity
from toolyard.venues.mcp.catalog.pins import Pins
from toolyard.venues.mcp.catalog.router import Router

_identity_decoder = msgspec.json.Decoder(ToolIdentity)


class NameRecords:
    """The bindings of names to tools: a name is bound once for all replicas.

    Each name is a record of its own, so that the store decides which of two replicas binds it. A binding outlives the
    session, the pins and the server of its tool: only a person frees it.
    """

    def __init__(self, store: SharedKeyValue, router: Router, reserved_names: Callable[[], Collection[str]]) -> None:
        self._store = store
        self._router = router
        self._reserved_names = reserved_names

    async def read(self) -> None:
        """Read the bindings of all processes."""
        stored = await self._store.list_records(TOOL_NAMES)
        self._router.replace_bindings({name: _identity_decoder.decode(body) for name, body in stored})

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
            self._router.bind(name, _identity_decoder.decode(body))


PINS = "mcp.pins"
_pins_decoder = msgspec.json.Decoder(Pins)


class PinRecords:
    """The pins of all servers: a decision at one replica binds all.

    What a replica's own session lists is its own: another replica may be connected to another version of the server.
    """

    def __init__(self, store: SharedKeyValue, name_records: NameRecords) -> None:
        self._store = store
        self._name_records = name_records
        self._bodies: dict[str, bytes] = {}
        self._pins: dict[str, Pins] = {}
        self._lock = asyncio.Lock()

    def get(self, server: str) -> Pins | None:
        """Return the pins of a server as they are stored; None if its tools were never listed."""
        return self._pins.get(server)

    async def load(self) -> None:
        """Read the pins and the names of tools at the start."""
        async with self._lock:
            await self._read()

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[None]:
        """Read what other replicas have stored, and let no task of this one change it during the block."""
        async with self._lock:
            await self._read_changes()
            yield

    @asynccontextmanager
    async def changing(self) -> AsyncGenerator[None]:
        """Let no other task or replica change pins during the block, which begins with those that are stored now.

        There is one lock for all servers, because a tool's name must not be assigned twice.
        """
        # The lock of this process comes first, so that it waits for the lock of the store with one task at most.
        async with self._lock, self._store.lock(PINS, ""):
            await self._read_changes()
            yield

    async def save(self, server: str, pins: Pins) -> None:
        """Store the pins of a server, inside `changing`."""
        body = msgspec.json.encode(pins)
        await self._store.set_record(PINS, server, body)
        self._bodies[server], self._pins[server] = body, pins

    async def delete(self, server: str) -> None:
        async with self._lock:
            await self._store.delete_record(PINS, server)
            self.forget(server)

    def forget(self, server: str) -> None:
        """Forget the pins of a server that are no longer stored."""
        self._bodies.pop(server, None)
        self._pins.pop(server, None)

    async def _read_changes(self) -> None:
        """Read what other replicas have changed."""
        if self._store.is_shared:
            await self._read()

    async def _read(self) -> None:
        """Read the pins of all servers, then the names of their tools: each was bound before its pin was stored."""
        bodies = dict(await self._store.list_records(PINS))
        changed = [server for server, body in bodies.items() if body != self._bodies.get(server)]
        self._pins = {
            server: _pins_decoder.decode(body) if server in changed else self._pins[server]
            for server, body in bodies.items()
        }
        self._bodies = bodies
        await self._name_records.read()
        pins = ((server, remote, pin) for server in changed for remote, pin in self._pins[server].items())
        await self._name_records.adopt({pin.offered_as: ToolIdentity(server, remote) for server, remote, pin in pins})
