"""One server: its sessions, its tools, and which of them are accepted. It does not know how a session is held.

Most servers have one session that everybody shares. One whose `auth` is `caller` has a session for each user of each
tenant, and no session is ever another one's. What it listed first, to whom it may be, is offered to those whom it has
not listed anything yet; from then on each gets what it lists for them, as far as that was accepted.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.mcp_servers import ServerCard, ServerSpec, ServerStatus, ServerTool
from toolyard.core.ports import CallerTools
from toolyard.core.tools import Tool
from toolyard.venues.mcp.auth.grants import GrantStore
from toolyard.venues.mcp.catalog.caller_views import CallerKey, CallerViews, ListedDefinition
from toolyard.venues.mcp.catalog.definitions import build_tool, hash_definition
from toolyard.venues.mcp.catalog.pins import (
    MAX_PINS,
    Pin,
    Pins,
    accept_pins,
    build_caller_pin,
    index_by_name,
    limit_pins,
    record_decision,
    reject_pins,
    update_pins,
)
from toolyard.venues.mcp.catalog.router import Route
from toolyard.venues.mcp.dependencies import ServerDependencies
from toolyard.venues.mcp.outcomes import FORBIDDEN, ErrorReply, Json, McpConnection, NoReply, SessionKind
from toolyard.venues.mcp.sessions.extra_sessions import ExtraSessions

PINS = "mcp.pins"
MAX_CALLERS = 1000
CALLER_IDLE_S = 600.0
EXTRA_IDLE_S = 60.0
SHARED_KEY: CallerKey = ()
TOOLS_CHANGED = "notifications/tools/list_changed"
_pins_decoder = msgspec.json.Decoder(Pins)


class ServerRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server as the store keeps it."""

    spec: ServerSpec
    created_at: float = 0.0
    wanted: bool = True
    started_at: float | None = None
    stopped_at: float | None = None


class ManagedServer:
    def __init__(
        self, id: str, record: ServerRecord, deps: ServerDependencies, *, configured: bool, pins: bytes = b""
    ) -> None:
        self.id = id
        self.record = record
        self.configured = configured
        self.removed = False
        self._deps = deps
        self._connections: dict[CallerKey, McpConnection] = {}
        self.extra_sessions = ExtraSessions(self, id, record.spec)
        self._pins: Pins = _pins_decoder.decode(pins) if pins else {}
        self.was_listed = bool(pins)
        """Whether its tools were listed at any time."""
        self._save_lock = asyncio.Lock()
        self._tools: dict[str, Tool] = {}
        self._views = CallerViews()
        self._caller_tools: dict[CallerKey, CallerTools] = {}
        for remote, pin in self._pins.items():
            name = record.spec.names.get(remote, pin.offered_as)
            if name not in deps.reserved_names():
                deps.router.reserve(name, Route(id, remote))
        self._pins = {remote: replace(pin, offered_as=self._assign_name(remote)) for remote, pin in self._pins.items()}
        self._update_tools()

    @property
    def spec(self) -> ServerSpec:
        return self.record.spec

    @property
    def status(self) -> ServerStatus:
        if not self.record.wanted:
            return "stopped"
        if self.spec.auth == "caller" and self.was_listed:
            return "running"
        link = self._connections.get(SHARED_KEY)
        return link.status if link else "idle"

    def start(self) -> None:
        """Open its session; that of a server whose callers have their own only to see what it lists."""
        if self.spec.auth == "server" or not self.was_listed:
            self._open_connection(SHARED_KEY, None)

    def stop(self) -> None:
        for link in self._connections.values():
            link.stop()
        self._connections.clear()
        self.extra_sessions.end_all()
        self._views.clear()
        self._caller_tools.clear()

    def get_connection(self, caller: Caller) -> McpConnection:
        """The session for this caller, opened if there is none."""
        return self._open_connection(*self.resolve_caller(caller))

    def resolve_caller(self, caller: Caller) -> tuple[CallerKey, Caller | None]:
        """Whose session this caller uses: the one of all, or its own."""
        return (SHARED_KEY, None) if self.spec.auth == "server" else ((caller.tenant, caller.user), caller)

    def build_grant_store(self, caller_key: CallerKey) -> GrantStore:
        return GrantStore(self._deps.store, self.id, caller_key or ("", ""), self.spec.url)

    def reconnect(self, caller: Caller) -> McpConnection:
        """A session with what is kept for this caller now."""
        self._end_sessions(self.resolve_caller(caller)[0])
        return self.get_connection(caller)

    def _end_sessions(self, caller_key: CallerKey) -> None:
        if (link := self._connections.pop(caller_key, None)) is not None:
            link.stop()
        self.extra_sessions.end_all(caller_key)
        self._views.forget(caller_key)
        self._caller_tools.pop(caller_key, None)

    def _open_connection(self, caller_key: CallerKey, caller: Caller | None) -> McpConnection:
        if (known := self._connections.get(caller_key)) is not None:
            return known
        self._evict_connection()
        made = self._deps.get_connector().create_connection(
            self.id, self.spec, caller, self, self.build_grant_store(caller_key)
        )
        self._connections[caller_key] = made
        self._deps.spawn(made.run())
        return made

    def open_extra_session(self, caller: Caller, kind: SessionKind) -> McpConnection:
        """Return a new session of this kind beside the one that this caller uses."""
        who, owner = self.resolve_caller(caller)
        watcher = ExtraSessionListener(self)
        link = self._deps.get_connector().create_connection(
            self.id, self.spec, owner, watcher, self.build_grant_store(who), kind
        )
        self._deps.spawn(link.run())
        return link

    async def remember_push(self, remote: str) -> None:
        """Remember that a tool asks in a way that the new era does not have."""
        async with self._save_lock:
            pin = self._pins.get(remote)
            if pin is not None and not pin.pushes:
                await self._save_pins({**self._pins, remote: replace(pin, pushes=True)})

    def _evict_connection(self) -> None:
        if len(self._connections) >= MAX_CALLERS:
            self._end_sessions(find_least_needed(self._connections))

    async def on_tools_listed(self, tools: list[Json], caller: Caller | None) -> None:
        """What it lists now, to all or to one. Kept before anybody is offered it."""
        who = SHARED_KEY if caller is None else self.resolve_caller(caller)[0]
        async with self._save_lock:
            if self.was_listed and self.spec.auth == "caller":
                await self._save_pins(self._add_caller_pins(index_by_name(tools)))
            else:
                before = self._pins if self.was_listed else None
                await self._save_pins(
                    update_pins(before, tools, trusting=self._is_trusting, assign_name=self._assign_name)
                )
            if who in self._connections and who != SHARED_KEY:
                self._views.update(who, tools)
                self._notify_if_changed(who)
        self._deps.on_change()
        if self.spec.auth == "caller":
            self._end_sessions(SHARED_KEY)  # it has served: from here on each caller has a session

    def _add_caller_pins(self, tools: Mapping[str, Json]) -> Pins:
        """The pins with those of what only one caller has been listed so far: they hold the names."""
        strange = {
            remote: Pin(offered_as=self._assign_name(remote), seen=definition, present=False)
            for remote, definition in tools.items()
            if remote not in self._pins
        }
        pins = {**self._pins, **strange}
        return pins if len(pins) <= MAX_PINS else limit_pins(pins, {*tools, *self._views.count_definitions()})

    async def accept(self, tools: Collection[str] = ()) -> None:
        await self._decide(accept_pins, tuple(tools), accept=True)

    async def reject(self, tools: Collection[str] = ()) -> None:
        await self._decide(reject_pins, tuple(tools), accept=False)

    async def _decide(
        self, apply: Callable[[Pins, Sequence[str]], Pins], tools: Sequence[str], *, accept: bool
    ) -> None:
        """For what all get, and for what only some do. A no to a name is one to all that was accepted of it."""
        async with self._save_lock:
            pins = apply(self._pins, tools)
            meant = {} if accept else {remote: [*pins[remote].said] for remote in tools}
            for remote, seen, pin, _ in self._iter_caller_pins():
                if remote in tools if tools else pin.is_waiting:
                    meant.setdefault(remote, []).append(seen.hash)
            await self._save_pins(
                pins | {remote: record_decision(pins[remote], meant[remote], accept) for remote in meant}
            )
            for who in self._views:
                self._notify_if_changed(who)
        self._deps.on_change()

    async def _save_pins(self, pins: Pins) -> None:
        if not self.removed and (pins != self._pins or not self.was_listed):
            await self._deps.store.set(PINS, self.id, msgspec.json.encode(pins))
            for gone in self._pins.keys() - pins.keys():
                self._deps.router.remove(Route(self.id, gone))
            self._pins, self.was_listed = pins, True
            self._update_tools()

    def _update_tools(self) -> None:
        """Which tools may be offered; those that are as they were stay the same objects."""
        self._tools = {remote: self._build_tool(remote, pin) for remote, pin in self._pins.items() if pin.is_offered}
        # Made once for all callers of other tenants, who share one table of tools as long as it is the same object.
        self._hidden = CallerTools({tool.name: None for tool in self._tools.values()})

    @property
    def _is_trusting(self) -> bool:
        return self.spec.pin == "off"

    def _iter_caller_pins(self) -> Iterator[tuple[str, ListedDefinition, Pin, int]]:
        """Each definition that only some callers get, with its pin as it is for them, and how many they are."""
        for remote, known in self._views.count_definitions().items():
            pin = self._pins[remote]
            for seen, callers in known.values():
                own = build_caller_pin(pin, seen.definition, seen.hash, trusting=self._is_trusting)
                if not pin.present or seen.hash != hash_definition(pin.seen):
                    yield remote, seen, own, callers

    def _build_caller_tools(self, caller_key: CallerKey) -> CallerTools:
        """How what this caller gets differs from what those get of whom nothing is known."""
        view = self._views.get(caller_key) or {}
        tools: dict[str, Tool | None] = {
            self._pins[remote].offered_as: None for remote in self._tools if remote not in view
        }
        for remote, seen in view.items():
            pin = build_caller_pin(self._pins[remote], seen.definition, seen.hash, trusting=self._is_trusting)
            tool, all_get = self._build_tool(remote, pin) if pin.is_offered else None, self._tools.get(remote)
            if tool is not all_get:
                tools[pin.offered_as] = tool
        return CallerTools(tools)

    def _notify_if_changed(self, caller_key: CallerKey) -> None:
        """A caller hears of it whose tools are others than before, and nobody else."""
        before, now = self._caller_tools.get(caller_key), self._build_caller_tools(caller_key)
        if now.tools != (before.tools if before is not None else {}):
            self._caller_tools[caller_key] = now
            tenant, user = caller_key
            self._deps.on_notification(self.id, TOOLS_CHANGED, {}, Caller(user=user, tenant=tenant))

    def caller_tools(self, caller: Caller) -> CallerTools | None:
        """What this caller gets otherwise than those of whom nothing is known; the same object as long as it is so."""
        if not self.spec.serves(caller):
            return self._hidden if self._hidden.tools else None
        found = self._caller_tools.get(self.resolve_caller(caller)[0])
        return found if found is not None and found.tools else None

    def on_notification(self, method: str, params: Json, caller: Caller | None) -> None:
        if method != TOOLS_CHANGED or caller is None:  # what a caller's own list comes to is told once it is known
            self._deps.on_notification(self.id, method, params, caller)

    async def on_elicitation(self, connection: object, question: Json, owner: object) -> Json:
        return await self._deps.on_elicitation(connection, question, owner)

    def on_status_change(self) -> None:
        self._deps.on_change()

    def offered_tools(self) -> Mapping[str, Tool]:
        """What may be offered now, by the names there."""
        return self._tools if self.is_available else {}

    @property
    def is_available(self) -> bool:
        return self.status not in ("stopped", "failed")

    def unavailable_tools(self) -> Sequence[Tool]:
        """Return what may be offered once it runs again; nothing while it does."""
        return () if self.is_available else tuple(self._tools.values())

    def _build_tool(self, remote: str, pin: Pin) -> Tool:
        made = self._deps.apply_rules(build_tool(pin.seen, pin.offered_as, self.id, self.spec))
        if alias := self.spec.names.get(remote, ""):
            made = replace(made, alias=alias)
        before = self._tools.get(remote)
        return before if before is not None and before == made else made

    @property
    def capabilities(self) -> Json:
        """What it says that it can do, by whichever of its sessions is open, or will be when it is asked."""
        nothing: Json = {}
        told = (
            link.describe().capabilities
            for link in self._connections.values()
            if link.status not in ("stopped", "failed")
        )
        return next((one for one in told if one), nothing)

    @property
    def has_tools(self) -> bool:
        """Whether it has any for anybody; what only some callers ever got counts, though they be away."""
        return any(pin.present or self.spec.auth == "caller" for pin in self._pins.values())

    def has_listing_for(self, caller: Caller) -> bool:
        """Whether it is known what this caller gets."""
        return self.spec.auth == "server" or self._views.get(self.resolve_caller(caller)[0]) is not None

    def check_call(self, tool: Tool, caller: Caller) -> ErrorReply | NoReply | None:
        """Why a tool may not be run for this caller, who has a session now, as it was when its call was judged."""
        if self.spec.auth == "server":
            return None
        view, remote = self._views.get(self.resolve_caller(caller)[0]), tool.remote
        if view is None:
            return NoReply("it is not known what it lists for this caller", read=False)
        if (seen := view.get(remote)) is None:
            return ErrorReply(FORBIDDEN, f"the server {self.id!r} has no tool {remote[:80]!r} for this caller")
        said = f"the server {self.id!r} lists the tool {remote[:80]!r} for this caller"
        pin = build_caller_pin(self._pins[remote], seen.definition, seen.hash, trusting=self._is_trusting)
        if not pin.is_offered:
            return ErrorReply(FORBIDDEN, f"{said} as nobody has accepted it: an administrator has to accept it first")
        if self._build_tool(remote, pin) != tool:
            return ErrorReply(FORBIDDEN, f"{said} otherwise than it was offered; nothing was run: ask for it again")
        return None

    def get_pin(self, remote: str) -> Pin | None:
        return self._pins.get(remote)

    def get_definition(self, remote: str, caller: Caller) -> Json:
        """A tool as it is listed for this caller; empty if it is not."""
        view = self._views.get(self.resolve_caller(caller)[0])
        if view is not None:
            return view[remote].definition if remote in view else {}
        pin = self._pins.get(remote)
        return pin.seen if pin is not None else {}

    def _assign_name(self, remote: str) -> str:
        wanted = self.spec.names.get(remote, "")
        return self._deps.router.assign(Route(self.id, remote), self._deps.reserved_names(), wanted)

    def build_card(self) -> ServerCard:
        shared = self._connections.get(SHARED_KEY)
        told = shared.describe() if shared else None
        return ServerCard(
            id=self.id,
            spec=self.spec,
            status=self.status,
            created_at=self.record.created_at,
            started_at=self.record.started_at,
            stopped_at=self.record.stopped_at,
            error=told.error if told else "",
            process_id=told.process_id if told else None,
            protocol=told.protocol if told else "",
            restarts=max(0, told.sessions - 1) if told else 0,
            sessions=sum(link.status == "running" for link in (*self._connections.values(), *self.extra_sessions)),
            configured=self.configured,
            log=told.log if told else (),
            tools=tuple(self._list_tools()),
        )

    def _list_tools(self) -> Iterator[ServerTool]:
        """What all get; then, where it is another or nobody has accepted it yet, what only some do."""
        known = {remote for remote, pin in self._pins.items() if pin.present}
        yield from (self._pins[remote].server_tool for remote in self._pins if remote in known)
        for remote, _, pin, callers in self._iter_caller_pins():
            if pin.state != "accepted" or remote not in known:
                known.add(remote)
                yield _describe_caller_tool(pin, callers)


def find_least_needed(connections: Mapping[CallerKey, McpConnection]) -> CallerKey:
    """Of very many sessions one that sleeps, or failed; else one without a call; of those, the oldest."""

    def rank(caller_key: CallerKey) -> int:
        return (
            0
            if connections[caller_key].status in ("idle", "failed")
            else 2
            if connections[caller_key].describe().in_flight
            else 1
        )

    return min(connections, key=rank)


def _describe_caller_tool(pin: Pin, callers: int) -> ServerTool:
    """What only some callers get says so."""
    shown = replace(pin.server_tool, callers=callers)
    said = "one caller gets it" if callers == 1 else f"{callers} callers get it"
    return shown if shown.state == "accepted" else replace(shown, why=f"as {said}:\n{shown.why}")


class ExtraSessionListener:
    """Hears what a further session tells. Its list of tools is nobody's: callers get the shared session's."""

    def __init__(self, server: ManagedServer) -> None:
        self._server = server
        self.on_notification = server.on_notification
        self.on_elicitation = server.on_elicitation

    async def on_tools_listed(self, tools: list[Json], caller: Caller | None) -> None:
        if caller is not None and not self._server.has_listing_for(caller):
            await self._server.on_tools_listed(tools, caller)

    def on_status_change(self) -> None:
        """Do nothing: a server's state is that of its shared session."""
