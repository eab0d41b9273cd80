"""All the servers: those of the configuration, and those added while it runs, which the store keeps.

It does not know the SDK: that is loaded when the first server is started.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextvars import Context
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid, NotFound, Refused
from toolyard.core.mcp_client import McpClient
from toolyard.core.mcp_servers import ServerAction, ServerCard, ServerSpec
from toolyard.core.ports import Heard, Mint, Personal
from toolyard.core.store import Shelf
from toolyard.core.tools import Tool
from toolyard.venues.mcp.auth.grants import forget_all
from toolyard.venues.mcp.auth.pending_sign_ins import SignIns
from toolyard.venues.mcp.catalog.router import Router
from toolyard.venues.mcp.outcomes import Answer, Json, Supervised
from toolyard.venues.mcp.server import PINS, Record, Server
from toolyard.venues.mcp.shared import Connector, Home

SERVERS = "mcp.servers"
START_S = 10.0
"""How long the start waits for servers whose tools nobody has seen yet."""
STOP_S = 10.0
MOST_SERVERS = 200
_record = msgspec.json.Decoder(Record)
T = TypeVar("T")


class Fleet:
    def __init__(
        self,
        configured: Mapping[str, ServerSpec],
        *,
        connector: Callable[[], Connector],
        shelf: Shelf,
        mint: Mint,
        taken: Callable[[], Collection[str]],
        ruled: Callable[[Tool], Tool],
        published: Callable[[], None],
    ) -> None:
        self._configured = configured
        self._make_connector = connector
        self._connector: Connector | None = None
        self._shelf = shelf
        self._mint = mint
        self._published = published
        self._servers: dict[str, Server] = {}
        self._listeners: list[Heard] = []
        self._tools: tuple[Tool, ...] = ()
        self._news = asyncio.Event()
        self._running: set[asyncio.Task[object]] = set()
        self.router = Router()
        self.sign_ins = SignIns(self.server, self._connect, self.spawn, self._until, mint)
        self.elicited: Callable[[object, Json, object], Coroutine[None, None, Json]] = _nobody
        self._home = Home(
            connector=self._connect,
            shelf=shelf,
            mint=mint,
            router=self.router,
            taken=taken,
            ruled=ruled,
            spawn=lambda work: self.spawn(work, Context()),  # whoever's call starts a server, it is nobody's
            changed=self._changed,
            notified=self._notified,
            elicited=lambda link, question, owner: self.elicited(link, question, owner),
        )

    async def open(self) -> None:
        """Start what is to run. Servers whose tools are known from before are not waited for."""
        pins = dict(await self._shelf.shelved(PINS))
        kept = {name: _record.decode(body) for name, body in await self._shelf.shelved(SERVERS)}
        now = self._mint.now()
        for id, spec in self._configured.items():
            self._add(id, Record(spec=spec, created_at=now), configured=True, pins=pins.get(id, b""))
        for id, record in kept.items():
            if id not in self._servers:
                self._add(id, record, configured=False, pins=pins.get(id, b""))
        for server in self._servers.values():
            if server.record.wanted:
                self._begin(server)
        self._changed()
        await self._settled([server for server in self._servers.values() if not server.known])

    async def close(self) -> None:
        for server in self._servers.values():
            server.stop()
        self.sign_ins.close()
        if self._running:
            await asyncio.wait(self._running, timeout=STOP_S)
        if self._connector is not None:
            self._connector.close()

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def unavailable(self, caller: Caller) -> Sequence[Tool]:
        """Return the tools of this caller's servers that do not run, as they were listed last."""
        servers = (server for server in self._servers.values() if server.spec.serves(caller))
        return [tool for server in servers for tool in server.unavailable_tools()]

    def cards(self) -> Sequence[ServerCard]:
        return [server.card() for server in self._servers.values()]

    async def add(self, id: str, spec: ServerSpec) -> ServerCard:
        """A new server, kept and started."""
        if id in self._servers:
            raise Refused(f"there is a server {id!r} already; remove it first or choose another name")
        if len(self._servers) >= MOST_SERVERS:
            raise Refused(f"there are {MOST_SERVERS} servers already; remove one first")
        server = self._add(id, Record(spec=spec, created_at=self._mint.now()), configured=False)
        await self._keep(server)
        self._begin(server)
        await self._settled([server])
        return server.card()

    async def change(self, id: str, spec: ServerSpec) -> ServerCard:
        """Give a server another configuration, kept; its sessions end, and one that was to run is started anew."""
        server = self.server(id)
        if server.configured:
            raise Refused(f"the server {id!r} stands in the configuration; change it there")
        pins = dict(await self._shelf.shelved(PINS)).get(id, b"")
        if self._servers.get(id) is not server:
            raise Refused(f"the server {id!r} was changed or removed by somebody else at the same time; look again")
        server.removed = True  # nothing more of the old one is kept: the new one has its place
        server.stop()
        self.router.forget(id)
        changed = self._add(id, replace(server.record, spec=spec), configured=False, pins=pins)
        await self._keep(changed)
        if changed.record.wanted:
            self._begin(changed)
        self._changed()
        await self._settled([changed])
        return changed.card()

    async def act(self, id: str, action: ServerAction, tools: Sequence[str] = ()) -> ServerCard:
        """Start, stop, accept or reject what changed of its tools, or take it away with all that is kept of it."""
        server = self.server(id)
        if action == "start":
            if server.status in ("stopped", "failed"):
                server.stop()
                self._begin(server)
            await self._settled([server])
        elif action == "stop":
            self._end(server)
        elif action == "accept":
            _require_known(server, tools)
            await server.accept(tools)
        elif action == "reject":
            _require_known(server, tools)
            await server.reject(tools)
        else:
            await self._remove(server)
            return server.card()
        await self._keep(server)
        self._changed()
        return server.card()

    async def ask(self, id: str, caller: Caller, method: str, params: Json, client: McpClient | None = None) -> Answer:
        """What a server answers to a request of any method, as it came: how resources and prompts pass through."""
        self.link(id, caller)  # opens it, or tells why not
        further = self.server(id).further
        link = further.get(caller, await further.choose(caller, client))
        return await link.ask(method, params, capabilities=further.capabilities_of(client))

    def offering(self, capability: str, caller: Caller) -> Mapping[str, bool]:
        """The servers for this caller that run now and can do this, and whether each has tools for anybody."""
        return {
            id: server.has_tools
            for id, server in self._servers.items()
            if capability in server.capabilities and server.spec.serves(caller)
        }

    def link(self, id: str, caller: Caller) -> Supervised:
        """The session of a server for this caller. Raises NotFound or, if it is stopped, Refused."""
        server = self.server(id)
        if not server.spec.serves(caller):
            raise NotFound(f"there is no server {id[:80]!r}")
        if not server.record.wanted:
            raise Refused(f"the server {id!r} is stopped")
        return server.link(caller)

    def server(self, id: str) -> Server:
        if (server := self._servers.get(id)) is None:
            raise NotFound(f"there is no server {id[:80]!r}")
        return server

    def definition(self, id: str, tool: str, caller: Caller) -> Json:
        """A tool as its server lists it for this caller; empty if there is none, or not any more."""
        server = self._servers.get(id)
        return server.definition(tool, caller) if server is not None and server.spec.serves(caller) else {}

    def knows(self, tool: Tool, caller: Caller) -> bool:
        """Whether it is known how this caller gets a tool."""
        server = self._servers.get(tool.server)
        return server is not None and server.knows(caller)

    def dispatches(self, tool: Tool, caller: Caller) -> bool:
        """Whether a call of this tool would reach its server now: not while it is gone and started anew."""
        server = self._servers.get(tool.server)
        if server is None or not server.spec.serves(caller):
            return False
        return server.status not in ("stopped", "failed", "restarting") and bool(server.definition(tool.remote, caller))

    def personal(self, caller: Caller) -> tuple[Personal, ...]:
        """What this caller gets otherwise than others, of each server where anything is."""
        return tuple(found for server in self._servers.values() if (found := server.personal(caller)) is not None)

    def listen(self, notified: Heard) -> Callable[[], None]:
        """Be told what servers tell unasked. The answer ends it."""
        self._listeners.append(notified)
        return lambda: self._listeners.remove(notified)

    def _add(self, id: str, record: Record, *, configured: bool, pins: bytes = b"") -> Server:
        server = Server(id, record, self._home, configured=configured, pins=pins)
        self._servers[id] = server
        return server

    def _begin(self, server: Server) -> None:
        server.record = replace(server.record, wanted=True, started_at=self._mint.now(), stopped_at=None)
        server.start()

    def _end(self, server: Server) -> None:
        server.record = replace(server.record, wanted=False, stopped_at=self._mint.now())
        server.stop()

    async def _remove(self, server: Server) -> None:
        if server.configured:
            raise Refused(f"the server {server.id!r} stands in the configuration; take it out there, or stop it here")
        del self._servers[server.id]  # before anything waits: nobody else removes it, and nothing more of it is kept
        server.removed = True
        self._end(server)
        self.router.forget(server.id)
        self._changed()
        await self._shelf.unshelve(SERVERS, server.id)
        await self._shelf.unshelve(PINS, server.id)
        await forget_all(self._shelf, server.id)

    async def _keep(self, server: Server) -> None:
        if not server.configured:
            await self._shelf.shelve(SERVERS, server.id, msgspec.json.encode(server.record))

    async def _settled(self, servers: Sequence[Server]) -> None:
        """Until each runs, or has failed once, for a while."""
        await self._until(lambda: all(server.status != "starting" for server in servers))

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Until that is so of the servers, or it takes too long."""
        try:
            async with asyncio.timeout(START_S):
                while not holds():
                    await self._news.wait()
        except TimeoutError:
            pass

    def _connect(self) -> Connector:
        self._connector = self._connector or self._make_connector()
        return self._connector

    def spawn(self, work: Coroutine[object, object, T], context: Context | None = None) -> "asyncio.Task[T]":
        """Run something that ends with the fleet, if not before."""
        task = asyncio.get_running_loop().create_task(work, context=context)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def now(self) -> float:
        return self._mint.now()

    def unfit(self, schema: object, content: object) -> str:
        return self._connect().unfit(schema, content)

    def _notified(self, server: str, method: str, params: Json, caller: Caller | None) -> None:
        for listener in self._listeners:
            listener(server, method, params, caller)

    def _changed(self) -> None:
        """Something did; whoever is offered tools hears of it only if they are not the same."""
        self._news.set()
        self._news = asyncio.Event()
        tools = tuple(tool for server in self._servers.values() for tool in server.tools().values())
        if tools != self._tools:
            self._tools = tools
            self._published()


async def _nobody(link: object, question: Json, owner: object) -> Json:
    raise LookupError("nobody is here to answer")


def _require_known(server: Server, tools: Sequence[str]) -> None:
    unknown = [name for name in tools if server.pin(name) is None]
    if unknown:
        raise Invalid(f"the server {server.id!r} has no tool {unknown[0][:80]!r}", {"field": "tools"})
