"""The stored pins of all servers. Replicas that share a store share them: a decision at one of them binds all.

What a replica's own session lists is its own: another replica may be connected to another version of the server.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

from toolyard.core.store import SharedKeyValue
from toolyard.core.tool_identity import ToolIdentity
from toolyard.venues.mcp.catalog.name_records import NameRecords
from toolyard.venues.mcp.catalog.pins import Pins

PINS = "mcp.pins"
_pins_decoder = msgspec.json.Decoder(Pins)


class PinRecords:
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
