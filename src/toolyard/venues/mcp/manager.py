"""Manages all MCP servers: those of the configuration, and those added at run time, which are stored.

The SDK is not imported here: a `Connector` loads it when the first server is started.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from typing import TypeVar

from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid, NotFound, Refused
from toolyard.core.items import Problem
from toolyard.core.json_types import Json
from toolyard.core.ports import CallerTools, Clock, NotificationHandler
from toolyard.core.store import AuditedKeyValue
from toolyard.core.store.audit_chain import AuditAction, hash_content
from toolyard.core.tool_identity import TOOL_NAMES, ToolIdentity
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.mcp_servers import McpClient, ServerAction, ServerCard, ServerSpec, ServerTrial
from toolyard.observability.auditor import RecordAuditor
from toolyard.venues.mcp.auth.grants import TOKENS, forget_grants
from toolyard.venues.mcp.auth.pending_sign_ins import PendingSignIns
from toolyard.venues.mcp.auth.sealed_records import SealedRecords
from toolyard.venues.mcp.catalog.records import PINS, NameRecords, PinRecords
from toolyard.venues.mcp.catalog.router import Router
from toolyard.venues.mcp.dependencies import Connector, ServerDependencies
from toolyard.venues.mcp.outcomes import McpConnection, ServerReply
from toolyard.venues.mcp.server import ManagedServer, ServerRecord
from toolyard.venues.mcp.server_records import (
    RUNS,
    SERVERS,
    ServerRecords,
    ServerRun,
    build_record,
    compute_version,
    require_version,
)
from toolyard.venues.mcp.trial import describe_target, try_server

START_S = 10.0
"""How long opening a yard, or adding a server, waits for servers whose tools have never been listed."""
STOP_S = 10.0
MAX_SERVERS = 200
FOLLOWED_KINDS = (SERVERS, RUNS, PINS, TOOL_NAMES)
"""The kinds of records whose changes by other replicas `follow` takes over; `follow_grants` does so for TOKENS."""
T = TypeVar("T")
_log = logging.getLogger("toolyard.mcp")


_AUDITED: Mapping[ServerAction, AuditAction] = {
    "start": "server.start",
    "stop": "server.stop",
}
"""The actions that the manager audits itself; others are audited where what they change is stored."""


class McpManager:
    def __init__(
        self,
        configured: Mapping[str, ServerSpec],
        *,
        make_connector: Callable[[], Connector],
        store: AuditedKeyValue,
        clock: Clock,
        reserved_names: Callable[[], Collection[str]],
        apply_rules: Callable[[Tool], Tool],
        find_defect: Callable[[Tool], str] = lambda tool: "",
        on_tools_changed: Callable[[], None],
        secret: str = "",
        allows_private: Callable[[], bool] = lambda: True,
        locations: Mapping[str, str] | None = None,
        on_trusted: Callable[[float], None] = lambda at: None,
    ) -> None:
        """`secret` encrypts the tokens that are stored. `locations` say where the servers of the configuration are set.

        `find_defect` returns why a tool that a server lists cannot be offered, or an empty text. `allows_private`
        returns whether servers that were added at run time may be at private addresses. `on_trusted` is called with
        the time at which somebody has trusted a server.
        """
        self._configured = configured
        self._locations = locations or {}
        self._make_connector = make_connector
        self._connector: Connector | None = None
        self._store = store
        self._clock = clock
        self._auditor = RecordAuditor(store, clock)
        self._reserved_names = reserved_names
        self._on_tools_changed = on_tools_changed
        self._on_trusted = on_trusted
        self._servers: dict[str, ManagedServer] = {}
        self._shadowed: dict[str, ServerRecord] = {}
        """The stored servers that are not used, because the configuration has servers of their ids."""
        self._listeners: list[NotificationHandler] = []
        self._tools: tuple[Tool, ...] = ()
        self._starting: list[ManagedServer] = []
        self.is_starting = False
        """Whether any server is being started."""
        self._change_event = asyncio.Event()
        self._tasks: set[asyncio.Task[object]] = set()
        self._change_lock = asyncio.Lock()
        self.router = Router()
        self._name_records = NameRecords(store, self.router, reserved_names)
        self._pin_records = PinRecords(store, self._name_records)
        self._sealed_records = SealedRecords(store, secret)
        self._records = ServerRecords(store, self._auditor, self._sealed_records)
        self.sign_ins = PendingSignIns(
            self.get_server,
            self._servers.values,
            self._get_connector,
            self._wait_until,
            self._sealed_records,
            clock,
            self._auditor,
        )
        self.on_elicitation: Callable[[object, Json, object], Coroutine[None, None, Json]] = _refuse_elicitation
        self._deps = ServerDependencies(
            get_connector=self._get_connector,
            store=store,
            sealed_records=self._sealed_records,
            pin_records=self._pin_records,
            name_records=self._name_records,
            clock=clock,
            auditor=self._auditor,
            router=self.router,
            reserved_names=reserved_names,
            apply_rules=apply_rules,
            find_defect=find_defect,
            allows_private=allows_private,
            # An empty context: a session that the first call opens serves others too, and must not run with the
            # context variables (trace, current request) of that call.
            spawn=lambda work: self.spawn(work, Context()),
            on_change=self._publish_changes,
            on_notification=self._notify_listeners,
            # Looked up at call time: the venue sets `on_elicitation` after the manager was made.
            on_elicitation=lambda connection, question, owner: self.on_elicitation(connection, question, owner),
        )

    async def open(self) -> None:
        """Start all servers that are to run, without waiting for any."""
        await self._pin_records.load()
        stored = await self._records.read()
        now = self._clock.now()
        for id, spec in self._configured.items():
            self._add(id, ServerRecord(spec=spec, created_at=now), configured=True)
        self._note_shadowed(stored)
        for id, record in stored.items():
            if id not in self._servers:
                self._add(id, record, configured=False)
        for server in self._servers.values():
            await server.load()
        for id, run in (await self._records.read_runs()).items():
            if (server := self._servers.get(id)) is not None and server.configured and not run.should_run:
                server.record = replace(server.record, should_run=False, stopped_at=run.stopped_at)
        for server in self._servers.values():
            if server.record.should_run:
                self._start(server)
        self._publish_changes()

    async def wait_until_listed(self) -> None:
        """Wait for the servers whose tools have never been listed, until they have failed once or START_S is over."""
        await self._wait_until_started([server for server in self._servers.values() if not server.was_listed])

    async def follow(self) -> None:
        """Take over what other replicas have changed: servers, whether they are to run, and accepted tools."""
        async with self._change_lock:
            await self._follow_records()
            async with self._pin_records.reading():
                for server in self._servers.values():
                    await server.take_stored_pins()
        self._publish_changes()

    async def follow_grants(self) -> None:
        """End the sessions of callers who have signed in or out at another replica, so that new ones use the grant."""
        sealed = dict(await self._sealed_records.list_sealed(TOKENS))
        for server in self._servers.values():
            server.follow_grants(sealed)
        self._publish_changes()

    async def close(self) -> None:
        for server in self._servers.values():
            server.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_S)
        if self._connector is not None:
            self._connector.close()

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def unavailable_tools(self, caller: Caller) -> Sequence[Tool]:
        """Return the tools, as last listed, of those servers for this caller that do not run."""
        servers = (server for server in self._servers.values() if server.spec.serves(caller))
        return [tool for server in servers for tool in server.unavailable_tools()]

    def explain_absence(self, name: str, caller: Caller) -> Problem | None:
        """Return why a tool that a server of this caller has is not offered; None if no server has it."""
        identity = self.router.find_identity(name)
        server = self._servers.get(identity.server) if identity is not None else None
        if identity is None or server is None or not server.spec.serves(caller):
            return None
        return server.explain_absence(identity.tool, caller)

    def list_outages(self, caller: Caller) -> Sequence[str]:
        """Return for each server of this caller whose tools were never listed why it does not run."""
        servers = (server for server in self._servers.values() if server.spec.serves(caller))
        return [text for server in servers if not server.was_listed and (text := server.describe_outage(caller))]

    def cards(self) -> Sequence[ServerCard]:
        return [self._build_card(server) for server in self._servers.values()]

    def _build_card(self, server: ManagedServer) -> ServerCard:
        card = server.build_card()
        if server.configured:
            card = replace(card, location=self._locations.get(server.id, ""))
        if server.id in self._shadowed:
            conflict = f"the store has a server {server.id!r} too, which is not used: the configuration comes first"
            return replace(card, version=compute_version(self._shadowed[server.id]), conflict=conflict)
        return card if server.configured else replace(card, version=compute_version(server.record))

    async def test(self, spec: ServerSpec, caller: Caller) -> ServerTrial:
        """Connect to a server and list its tools, for at most START_S, without adding it."""
        self._require_startable(spec)
        async with self._auditor.record("server.test", describe_target(spec), tenant="", by=caller):
            return await try_server(self._deps, spec, caller, START_S)

    async def add(self, id: str, spec: ServerSpec) -> ServerCard:
        """Store and start a new server. Raise Refused if the id is taken, or if it could never be started here."""
        (card,) = await self.add_all({id: spec})
        return card

    async def add_all(self, specs: Mapping[str, ServerSpec]) -> Sequence[ServerCard]:
        """Store and start new servers: all of them, or none if one would be refused."""
        for spec in specs.values():
            self._require_startable(spec)
        async with self._changing():
            for id in specs:
                if id in self._servers:
                    raise Refused(f"there is a server {id!r} already; remove it first or choose another name")
            servers = await self._store_all(specs)
        await self._wait_until_started(servers)
        return [self._build_card(server) for server in servers]

    async def set_all(self, specs: Mapping[str, ServerSpec], *, dry_run: bool = False) -> None:
        """Store and start servers, also in place of others: all of them, or none if one would be refused.

        With `dry_run` none is stored.
        """
        for spec in specs.values():
            self._require_startable(spec)
        async with self._changing():
            for id in specs:
                if id in self._servers:
                    _require_stored(self._servers[id])
            servers = await self._store_all(specs, dry_run=dry_run)
        self._publish_changes()
        await self._wait_until_started(servers)

    async def _store_all(self, specs: Mapping[str, ServerSpec], *, dry_run: bool = False) -> Sequence[ManagedServer]:
        """Store servers, and start those that are to run."""
        if len(self._servers.keys() | specs.keys()) > MAX_SERVERS:
            raise Refused(f"there are {len(self._servers)} servers of at most {MAX_SERVERS}; remove some first")
        earlier = {id: self._servers[id].record for id in specs if id in self._servers}
        now = self._clock.now()
        records = {id: build_record(spec, earlier.get(id), now) for id, spec in specs.items()}
        if dry_run:
            self._records.check(records)
            return ()
        await self._records.set_all(records, {id: record.spec for id, record in earlier.items()})
        servers: list[ManagedServer] = []
        for id, record in records.items():
            if id in earlier:
                servers.append(await self._replace(self._servers[id], record))
                continue
            self._pin_records.forget(id)
            async with self._pin_records.reading():
                server = self._add(id, record, configured=False)
                await server.load()
            self._start(server)
            servers.append(server)
        return servers

    async def change(self, id: str, spec: ServerSpec, expected: str | None = None) -> ServerCard:
        """Store another configuration for a server, end its sessions, and start it again if it is to run."""
        self._require_startable(spec)
        async with self._changing():
            server = self.get_server(id)
            _require_stored(server)
            require_version(id, server.record, expected)
            (changed,) = await self._store_all({id: spec})
        self._publish_changes()
        await self._wait_until_started([changed])
        return self._build_card(changed)

    async def act(
        self,
        id: str,
        action: ServerAction,
        tools: Sequence[str] = (),
        hashes: Collection[str] = (),
        expected: str | None = None,
    ) -> ServerCard:
        """Start or stop a server, accept or reject its changed tools, or remove it with all that is stored for it.

        `hashes` are those of the definitions that a person was shown: Refused is raised if others are listed by now.
        """
        server = self.get_server(id)
        if action == "accept":
            _require_known_tools(server, tools)
            await server.accept(tools, hashes)
        elif action == "reject":
            _require_known_tools(server, tools)
            await server.reject(tools, hashes)
        else:
            async with self._changing():
                server = self.get_server(id)
                if action == "remove":
                    await self._remove(server, expected)
                else:
                    async with self._auditor.record(_AUDITED[action], id, tenant=""):
                        await (self._act_start(server) if action == "start" else self._act_stop(server))
        self._publish_changes()
        if action == "start":
            await self._wait_until_started([server])
        return self._build_card(server)

    def find_listed(self, tool: Tool, at: float) -> Tool:
        """Return a tool as it was listed at a time: as that of an untrusted server if it was trusted only later."""
        server = self._servers.get(tool.server) if tool.server else None
        return server.build_untrusted(tool) if server is not None and server.record.trusted_at > at else tool

    def list_names(self, id: str) -> Sequence[str]:
        """Return the names that are bound to tools of a server, whether there is that server or not."""
        return self.router.list_server_names(id)

    async def free_names(self, id: str) -> Sequence[str]:
        """Free the tool names of a server that was removed: from now on they may be bound to tools of other servers."""
        async with self._changing(), self._pin_records.changing():
            if id in self._servers:
                raise Refused(f"there is a server {id!r}: its tools keep their names until it is removed")
            if not (names := self.list_names(id)):
                raise NotFound(f"no names are bound to tools of a server {id[:80]!r}")
            content_hash = hash_content(sorted(names))
            async with self._auditor.record("server.free_names", id, tenant="", content_hash=content_hash):
                await self._name_records.unbind(names)
        return names

    async def _act_start(self, server: ManagedServer) -> None:
        if server.status in ("stopped", "failed"):
            server.stop()
            self._start(server)
        # Also if it runs here: another replica may have failed to connect to it, and tries again upon this.
        await self._save(server, started_at=self._clock.now())

    async def _act_stop(self, server: ManagedServer) -> None:
        self._stop(server)
        await self._save(server)

    async def ask(
        self, id: str, caller: Caller, method: str, params: Json, client: McpClient | None = None
    ) -> ServerReply:
        """Return a server's raw answer to a request of any method; resources and prompts are passed through so."""
        self.get_connection(id, caller)  # raises NotFound or Refused
        extra_sessions = self.get_server(id).extra_sessions
        connection = extra_sessions.get(caller, await extra_sessions.choose(caller, client))
        return await connection.ask(method, params, capabilities=extra_sessions.get_capabilities(client))

    def find_servers(self, capability: str, caller: Caller) -> Mapping[str, bool]:
        """Return the servers for this caller that announce a capability, and whether each has tools for any caller."""
        return {
            id: server.has_tools
            for id, server in self._servers.items()
            if capability in server.capabilities and server.spec.serves(caller)
        }

    def get_connection(self, id: str, caller: Caller) -> McpConnection:
        """Return a server's session for this caller; open it if needed. Raise NotFound, or Refused if it is stopped."""
        server = self.get_server(id)
        if not server.spec.serves(caller):
            raise NotFound(f"there is no server {id[:80]!r}")
        if not server.record.should_run:
            raise Refused(server.describe_outage(caller))
        return server.get_connection(caller)

    def get_server(self, id: str) -> ManagedServer:
        if (server := self._servers.get(id)) is None:
            raise NotFound(f"there is no server {id[:80]!r}")
        return server

    def find_tool_identity(self, name: str) -> ToolIdentity | None:
        """Return the tool of a server that a name is bound to; None for a name of another venue's tool."""
        return None if name in self._reserved_names() else self.router.find_identity(name)

    def get_definition(self, id: str, tool: str, caller: Caller) -> Json:
        """Return a tool's definition as its server lists it for this caller; empty if it does not."""
        server = self._servers.get(id)
        return server.get_definition(tool, caller) if server is not None and server.spec.serves(caller) else {}

    def knows_tool(self, tool: Tool, caller: Caller) -> bool:
        """Return whether the tool's server has listed its tools for this caller."""
        server = self._servers.get(tool.server)
        return server is not None and server.has_listing_for(caller)

    def can_dispatch(self, tool: Tool, caller: Caller) -> bool:
        """Return whether a call of this tool would reach its server now: not while the server is restarted."""
        server = self._servers.get(tool.server)
        if server is None or not server.spec.serves(caller):
            return False
        return server.status not in ("stopped", "failed", "restarting") and bool(
            server.get_definition(tool.remote, caller)
        )

    def starts_until(self, caller: Caller, tool: Tool | None, max_s: float) -> float:
        """Return until when the server of this tool, or those never listed, may take to start; 0.0 if none starts."""
        if tool is not None:
            servers = [server for server in self._starting if server.id == tool.server]
        else:
            servers = [server for server in self._starting if not server.was_listed and server.spec.serves(caller)]
        return max((server.starts_until(max_s) for server in servers), default=0.0)

    def caller_tools(self, caller: Caller) -> tuple[CallerTools, ...]:
        """Return how this caller's tools differ from the shared ones, for each server where they do."""
        if not self._servers:
            return ()
        return tuple(tools for server in self._servers.values() if (tools := server.caller_tools(caller)) is not None)

    def subscribe(self, handler: NotificationHandler) -> Callable[[], None]:
        """Call `handler` for each notification of a server. Return a function that ends the subscription."""
        self._listeners.append(handler)
        return lambda: self._listeners.remove(handler)

    def _require_startable(self, spec: ServerSpec) -> None:
        if self._store.is_shared and (problem := spec.replica_problem):
            raise Refused(problem)

    @asynccontextmanager
    async def _changing(self) -> AsyncGenerator[None]:
        """Let no other task or replica change servers during the block, which begins with those that are stored."""
        # The lock of this process comes first, so that it waits for the lock of the store with one task at most.
        async with self._change_lock, self._store.lock(SERVERS, ""):
            if self._store.is_shared:
                await self._follow_records()
            yield

    def _note_shadowed(self, stored: Mapping[str, ServerRecord]) -> None:
        self._shadowed = {id: record for id, record in stored.items() if id in self._configured}

    async def _follow_records(self) -> None:
        """Add, replace, start, stop and drop servers until they are those that are stored."""
        stored, runs = await self._records.read(), await self._records.read_runs()
        self._note_shadowed(stored)
        for id, server in list(self._servers.items()):
            record = stored.get(id)
            if server.configured:
                if run := runs.get(id):
                    self._follow_run(server, run)
            elif record is None:
                self._drop(server)
            elif (record.spec, record.created_at) != (server.spec, server.record.created_at):
                await self._replace(server, record)
            else:
                self._follow_run(server, record)
        for id, record in stored.items():
            if id not in self._servers:
                async with self._pin_records.reading():
                    server = self._add(id, record, configured=False)
                    await server.load()
                if record.should_run:
                    server.start()

    def _follow_run(self, server: ManagedServer, run: "ServerRun | ServerRecord") -> None:
        started_again = (run.started_at or 0.0) > (server.record.started_at or 0.0) and server.status == "failed"
        if run.should_run == server.record.should_run and not (run.should_run and started_again):
            return
        server.record = replace(
            server.record, should_run=run.should_run, started_at=run.started_at, stopped_at=run.stopped_at
        )
        server.stop()
        if run.should_run:
            server.start()

    def _add(self, id: str, record: ServerRecord, *, configured: bool) -> ManagedServer:
        server = ManagedServer(id, record, self._deps, configured=configured)
        self._servers[id] = server
        self._on_trusted(record.trusted_at)
        if warning := record.spec.version_warning:
            _log.warning("the server %r %s", id, warning)
        if record.problem:
            _log.warning("the server %r cannot be used: %s", id, record.problem)
        return server

    async def _replace(self, server: ManagedServer, record: ServerRecord) -> ManagedServer:
        """Put a server with another configuration in the place of one that is stopped. Its pins stay."""
        server.removed = True  # the old object must not write pins any more: the record belongs to the new one
        server.stop()
        async with self._pin_records.reading():
            changed = self._add(server.id, record, configured=False)
            await changed.load()
        if record.should_run:
            changed.start()
        return changed

    def _drop(self, server: ManagedServer) -> None:
        del self._servers[server.id]
        server.removed = True
        self._stop(server)
        self.router.drop_aliases(server.id)

    def _start(self, server: ManagedServer) -> None:
        server.record = replace(server.record, should_run=True, started_at=self._clock.now(), stopped_at=None)
        server.start()

    def _stop(self, server: ManagedServer) -> None:
        server.record = replace(server.record, should_run=False, stopped_at=self._clock.now())
        server.stop()

    async def _remove(self, server: ManagedServer, expected: str | None) -> None:
        """Remove a server, or the stored one that is not used because the configuration has a server of its id."""
        shadowed = self._shadowed.get(server.id)
        if shadowed is None:
            _require_removable(server)
        record = shadowed or server.record
        require_version(server.id, record, expected)
        await self._records.remove(server.id, record.spec, is_used=shadowed is None)
        if shadowed is not None:
            del self._shadowed[server.id]
            return
        self._drop(server)
        # Once more: a session may have stored pins or renewed a grant until it was ended.
        await self._pin_records.delete(server.id)
        await forget_grants(self._sealed_records, server.id)

    async def _save(self, server: ManagedServer, started_at: float | None = None) -> None:
        record = server.record if started_at is None else replace(server.record, started_at=started_at)
        await self._records.save_run(server.id, record, configured=server.configured)

    async def _wait_until_started(self, servers: Sequence[ManagedServer]) -> None:
        """Wait until each server runs or has failed once, for at most START_S."""
        await self._wait_until(lambda: all(server.status != "starting" for server in servers))

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds, for at most START_S. It is checked whenever a server changes."""
        try:
            async with asyncio.timeout(START_S):
                while not condition():
                    await self._change_event.wait()
        except TimeoutError:
            pass

    def _get_connector(self) -> Connector:
        self._connector = self._connector or self._make_connector()
        return self._connector

    def spawn(self, work: Coroutine[object, object, T], context: Context | None = None) -> "asyncio.Task[T]":
        """Run a coroutine as a task that `close` waits for."""
        task = asyncio.get_running_loop().create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def now(self) -> float:
        return self._clock.now()

    def validate(self, schema: object, content: object) -> str:
        return self._get_connector().validate(schema, content)

    def _notify_listeners(self, server: str, method: str, params: Json, caller: Caller | None) -> None:
        for listener in self._listeners:
            listener(server, method, params, caller)

    def _publish_changes(self) -> None:
        """Wake everybody who waits for a change of a server, and report the offered tools if they have changed."""
        self._change_event.set()
        self._change_event = asyncio.Event()
        self._starting = [server for server in self._servers.values() if server.is_starting]
        self.is_starting = bool(self._starting)
        tools = tuple(tool for server in self._servers.values() for tool in server.offered_tools().values())
        if tools != self._tools:
            self._tools = tools
            self._on_tools_changed()


def _require_stored(server: ManagedServer) -> None:
    if server.configured:
        raise Refused(f"the server {server.id!r} is in the configuration; change it there")


async def _refuse_elicitation(connection: object, question: Json, owner: object) -> Json:
    raise LookupError("nobody is here to answer")


def _require_removable(server: ManagedServer) -> None:
    if server.configured:
        raise Refused(f"the server {server.id!r} is in the configuration; remove it there, or stop it here")


def _require_known_tools(server: ManagedServer, tools: Sequence[str]) -> None:
    unknown = [name for name in tools if server.get_pin(name) is None]
    if unknown:
        raise Invalid(f"the server {server.id!r} has no tool {unknown[0][:80]!r}", {"field": "tools"})
