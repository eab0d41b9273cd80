"""One MCP server: its sessions, its tools, and which of them are accepted. `sessions` opens and restarts connections.

Most servers have one session that all callers share. A server whose `auth` is `caller` has a session for each user of
each tenant, and no session serves two users. Its first listing, over any session, is offered to callers who have no
session yet; once a caller's own session has listed the tools, that caller gets the accepted ones of that listing.
"""

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from weakref import WeakValueDictionary

from msgspec import Struct, field
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.errors import Refused
from toolyard.core.failed_results import to_problem
from toolyard.core.items import Problem
from toolyard.core.json_types import Json
from toolyard.core.ports import CallerTools
from toolyard.core.store.audit_chain import hash_content
from toolyard.core.tool_identity import ToolIdentity
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.mcp_servers import (
    ServerCard,
    ServerSpec,
    ServerStatus,
    ServerTool,
    describe_outage,
    select_visible_error,
)
from toolyard.observability.telemetry import mask_secrets
from toolyard.venues.mcp.auth.grants import GrantStore
from toolyard.venues.mcp.catalog.caller_views import CallerKey, CallerViews, ListedDefinition
from toolyard.venues.mcp.catalog.definitions import build_tool, distrust_tool, hash_definition
from toolyard.venues.mcp.catalog.pins import (
    MAX_PINS,
    Pin,
    Pins,
    accept_pins,
    build_caller_pin,
    index_by_name,
    limit_pins,
    merge_pins,
    record_decision,
    reject_pins,
    update_pins,
)
from toolyard.venues.mcp.dependencies import ServerDependencies
from toolyard.venues.mcp.outcomes import (
    FORBIDDEN,
    ConnectionInfo,
    ErrorReply,
    McpConnection,
    NoReply,
    SessionKind,
)
from toolyard.venues.mcp.sessions.extra_sessions import ExtraSessions

MAX_CALLERS = 1000
CALLER_IDLE_S = 600.0
EXTRA_IDLE_S = 60.0
SHARED_KEY: CallerKey = ()
TOOLS_CHANGED = "notifications/tools/list_changed"


class ServerRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server as it is stored."""

    spec: ServerSpec
    created_at: float = 0.0
    should_run: bool = field(default=True, name="wanted")
    """Whether the server is to run; False once somebody has stopped it."""
    started_at: float | None = None
    stopped_at: float | None = None
    trusted_at: float = 0.0
    """When somebody has trusted the server; 0 for one that is not trusted, or by an earlier version."""
    sealed: bytes = b""
    """The whole configuration, encrypted; `spec` then has masks in the place of its secrets. Empty once it is read."""
    problem: str = ""
    """Why `sealed` could not be read, so that the server cannot be used. It is not stored."""


class ManagedServer:
    def __init__(self, id: str, record: ServerRecord, deps: ServerDependencies, *, configured: bool) -> None:
        self.id = id
        self.record = record
        self.configured = configured
        self.removed = False
        self._deps = deps
        self._connections: dict[CallerKey, McpConnection] = {}
        self._grant_stores: WeakValueDictionary[tuple[CallerKey, str], GrantStore] = WeakValueDictionary()
        self.extra_sessions = ExtraSessions(self, id, record.spec)
        self._pins: Pins = {}
        self.was_listed = False
        """Whether its tools were ever listed, by any process."""
        self._listed_here = False
        """Whether this process has listed its tools over the shared session."""
        self._tools: dict[str, Tool] = {}
        self._defects: dict[str, str] = {}
        """Why tools of `_tools` are not offered, by their names on the server."""
        self._views = CallerViews()
        self._caller_tools: dict[CallerKey, CallerTools] = {}
        self._update_tools()

    async def load(self) -> None:
        """Keep the aliases of the configuration for this server's tools, and take over what is stored about them."""
        self._deps.router.keep_aliases(self.id, self.spec.names)
        await self.take_stored_pins()

    async def take_stored_pins(self) -> None:
        """Take over the pins that this process or another one has stored."""
        stored = self._deps.pin_records.get(self.id)
        if stored is None or self.removed:
            return
        if self._listed_here:
            pins = merge_pins(self._pins, stored)
        else:
            listed = self._views.count_definitions()
            pins = {**{remote: pin for remote, pin in self._pins.items() if remote in listed}, **stored}
        # The configuration may have other aliases than the process that stored the pins.
        names = await self._bind_names(pins)
        self._set_pins({remote: replace(pin, offered_as=names[remote]) for remote, pin in pins.items()})

    def _set_pins(self, pins: Pins) -> None:
        if pins != self._pins or not self.was_listed:
            self._pins, self.was_listed = pins, True
            self._update_tools()
            for caller_key in self._views:
                self._notify_if_changed(caller_key)

    @asynccontextmanager
    async def _changing_pins(self) -> AsyncGenerator[None]:
        async with self._deps.pin_records.changing():
            await self.take_stored_pins()
            yield

    @property
    def spec(self) -> ServerSpec:
        return self.record.spec

    @property
    def status(self) -> ServerStatus:
        if not self.record.should_run:
            return "stopped"
        if self.forbidden_reason:
            return "failed"
        if self.spec.auth == "caller" and self.was_listed:
            return "running"
        connection = self._connections.get(SHARED_KEY)
        return connection.status if connection else "idle"

    @property
    def forbidden_reason(self) -> str:
        """Return why this server cannot be used here; empty if it can."""
        return self.record.problem or (self.spec.replica_problem if self._deps.store.is_shared else "")

    def is_public_only(self) -> bool:
        """Return whether the server is reached at public addresses only: one that was not configured by a file."""
        return not (self.configured or self._deps.allows_private())

    def start(self) -> None:
        """Open the shared session. With `auth = "caller"` it serves only for the first listing of the tools."""
        if self.forbidden_reason:
            self._deps.on_change()
        elif self.spec.auth == "server" or not self.was_listed:
            self._open_connection(SHARED_KEY, None)

    def stop(self) -> None:
        for connection in self._connections.values():
            connection.stop()
        self._connections.clear()
        self.extra_sessions.end_all()
        self._views.clear()
        self._caller_tools.clear()

    def get_connection(self, caller: Caller) -> McpConnection:
        """Return the session for this caller; open it if there is none."""
        return self._open_connection(*self.resolve_caller(caller))

    def resolve_caller(self, caller: Caller) -> tuple[CallerKey, Caller | None]:
        """Return the key of the session that this caller uses, and the caller if that session is the caller's own."""
        return (SHARED_KEY, None) if self.spec.auth == "server" else ((caller.tenant, caller.user), caller)

    def get_grant_store(self, caller_key: CallerKey) -> GrantStore:
        """Return the store of this caller's grant: the same object as long as a session uses it."""
        key = (caller_key, self.spec.url)
        if (grant_store := self._grant_stores.get(key)) is None:
            grant_store = GrantStore(self._deps.sealed_records, self.id, caller_key, self.spec.url)
            self._grant_stores[key] = grant_store
        return grant_store

    def follow_grants(self, sealed: Mapping[str, bytes]) -> None:
        """End the sessions of callers who have signed in or out at another replica."""
        for (caller_key, _), grant_store in list(self._grant_stores.items()):
            if grant_store.is_replaced(sealed):
                self._end_sessions(caller_key)
                if caller_key == SHARED_KEY and self.record.should_run:
                    self.start()

    def reconnect(self, caller: Caller) -> McpConnection:
        """Replace this caller's sessions by one that uses the grant stored for the caller now."""
        self._end_sessions(self.resolve_caller(caller)[0])
        return self.get_connection(caller)

    def _end_sessions(self, caller_key: CallerKey) -> None:
        if (connection := self._connections.pop(caller_key, None)) is not None:
            connection.stop()
        self.extra_sessions.end_all(caller_key)
        self._views.forget(caller_key)
        self._caller_tools.pop(caller_key, None)

    def _open_connection(self, caller_key: CallerKey, caller: Caller | None) -> McpConnection:
        if (connection := self._connections.get(caller_key)) is not None:
            return connection
        self._require_allowed()
        self._evict_connection()
        connection = self._deps.get_connector().create_connection(
            self.id, self.spec, caller, self, self.get_grant_store(caller_key), is_public_only=self.is_public_only
        )
        self._connections[caller_key] = connection
        self._deps.spawn(connection.run())
        return connection

    def open_extra_session(self, caller: Caller, kind: SessionKind) -> McpConnection:
        """Open a session of this kind beside the one that this caller uses."""
        self._require_allowed()
        caller_key, owner = self.resolve_caller(caller)
        listener = ExtraSessionListener(self)
        connection = self._deps.get_connector().create_connection(
            self.id,
            self.spec,
            owner,
            listener,
            self.get_grant_store(caller_key),
            kind,
            is_public_only=self.is_public_only,
        )
        self._deps.spawn(connection.run())
        return connection

    def _require_allowed(self) -> None:
        if reason := self.forbidden_reason:
            raise Refused(f"the server {self.id!r} is not started: {reason}")

    async def remember_push(self, remote: str) -> None:
        """Record that a tool asks by a request of its own, which the new era does not have."""
        async with self._changing_pins():
            pin = self._pins.get(remote)
            if pin is not None and not pin.pushes:
                await self._save_pins({**self._pins, remote: replace(pin, pushes=True)})

    def _evict_connection(self) -> None:
        if len(self._connections) >= MAX_CALLERS:
            self._end_sessions(find_least_needed(self._connections))

    async def on_tools_listed(self, tools: list[Json], caller: Caller | None) -> None:
        """Take over a listing of the shared session, or of one caller's. Pins are stored before tools are offered."""
        caller_key = SHARED_KEY if caller is None else self.resolve_caller(caller)[0]
        async with self._changing_pins():
            names = await self._bind_names(index_by_name(tools))
            if self.was_listed and self.spec.auth == "caller":
                await self._save_pins(self._add_caller_pins(index_by_name(tools), names))
            else:
                before = self._pins if self.was_listed else None
                await self._save_pins(
                    update_pins(
                        before,
                        tools,
                        trusting=self._is_trusting,
                        accept_first=self.spec.pin != "review",
                        assign_name=names.__getitem__,
                    )
                )
                self._listed_here = True
            # The session may have been ended while the pins were written; a view must not outlive its session.
            if caller_key in self._connections and caller_key != SHARED_KEY:
                self._views.update(caller_key, tools)
                self._notify_if_changed(caller_key)
        self._deps.on_change()
        if self.spec.auth == "caller":
            self._end_sessions(SHARED_KEY)  # it was needed for the first listing only; callers have their own sessions

    def _add_caller_pins(self, tools: Mapping[str, Json], names: Mapping[str, str]) -> Pins:
        """Return the pins with one for each tool that only this caller gets.

        Such a pin accepts nothing and is not `present`, so the tool stays hidden from callers without a listing.
        """
        added = {
            remote: Pin(offered_as=names[remote], seen=definition, present=False)
            for remote, definition in tools.items()
            if remote not in self._pins
        }
        pins = {**self._pins, **added}
        return pins if len(pins) <= MAX_PINS else limit_pins(pins, {*tools, *self._views.count_definitions()})

    async def accept(self, tools: Collection[str] = (), shown_hashes: Collection[str] = ()) -> None:
        await self._decide(accept_pins, tuple(tools), shown_hashes, accept=True)

    async def reject(self, tools: Collection[str] = (), shown_hashes: Collection[str] = ()) -> None:
        await self._decide(reject_pins, tuple(tools), shown_hashes, accept=False)

    async def _decide(
        self,
        apply: Callable[[Pins, Sequence[str]], Pins],
        tools: Sequence[str],
        shown_hashes: Collection[str],
        *,
        accept: bool,
    ) -> None:
        """Decide on the shared definitions and on those that only some callers get.

        Rejecting a tool by name also rejects every definition of it that was accepted for some callers. With
        `shown_hashes`, the hashes of the definitions that a person was shown, only those are decided.
        """
        async with self._changing_pins():
            self._require_listed(shown_hashes)
            pins = {
                remote: pin if not shown_hashes or hash_definition(pin.seen) in shown_hashes else self._pins[remote]
                for remote, pin in apply(self._pins, tools).items()
            }
            hashes = {} if accept else {remote: [*pins[remote].caller_decisions] for remote in tools}
            for remote, listed, pin, _ in self._iter_caller_pins():
                if (remote in tools if tools else pin.is_waiting) and (not shown_hashes or listed.hash in shown_hashes):
                    hashes.setdefault(remote, []).append(listed.hash)
            pins |= {remote: record_decision(pins[remote], hashes[remote], accept) for remote in hashes}
            async with self._audit_decision(pins, accept=accept):
                await self._save_pins(pins)
        self._deps.on_change()

    def _require_listed(self, hashes: Collection[str]) -> None:
        """Raise Refused if a definition is not listed any more: a server could change it while a person reads it."""
        listed = {hash_definition(pin.seen) for pin in self._pins.values() if pin.present}
        listed |= {version.hash for _, version, _, _ in self._iter_caller_pins()}
        if not listed.issuperset(hashes):
            raise Refused("the server has changed its tools since you were shown them: look at them again")

    def _audit_decision(self, pins: Pins, *, accept: bool) -> AbstractAsyncContextManager[object]:
        """Return the context in which changed pins are saved: it writes the audit entry, if any pin has changed."""
        changed = {
            remote: [hash_definition(pin.seen), *pin.caller_decisions]
            for remote, pin in pins.items()
            if pin != self._pins.get(remote)
        }
        if not changed:
            return nullcontext()
        target = f"{self.id}: {', '.join(sorted(changed))}"
        action = "pin.accept" if accept else "pin.reject"
        return self._deps.auditor.record(action, target, tenant="", content_hash=hash_content(changed))

    async def _save_pins(self, pins: Pins) -> None:
        # A removed server must not write again: its record is gone, or belongs to the server that replaced it.
        # An empty first listing is stored too, because it decides that later tools are quarantined.
        if not self.removed and (pins != self._pins or not self.was_listed):
            # Pins are dropped only of tools that nobody ever accepted: nothing can hold to their names.
            dropped = [ToolIdentity(self.id, remote) for remote in self._pins.keys() - pins.keys()]
            await self._deps.name_records.unbind(
                {name for identity in dropped for name in self._deps.router.list_names(identity)}
            )
            await self._deps.pin_records.save(self.id, pins)
            self._set_pins(pins)

    def _update_tools(self) -> None:
        """Build the tools that may be offered; an unchanged tool stays the same object and is not checked again."""
        before = self._tools
        self._tools = {remote: self._build_tool(remote, pin) for remote, pin in self._pins.items() if pin.is_offered}
        self._defects = {
            remote: self._defects.get(remote, "") if tool is before.get(remote) else self._deps.find_defect(tool)
            for remote, tool in self._tools.items()
        }
        # Built once for all callers of other tenants: they share one table of tools while this is the same object.
        self._hidden = CallerTools({tool.name: None for tool in self._tools.values()})

    @property
    def _is_trusting(self) -> bool:
        return self.spec.pin == "off"

    def _iter_caller_pins(self) -> Iterator[tuple[str, ListedDefinition, Pin, int]]:
        """Yield each definition that only some callers get, its pin as it is for them, and their number."""
        for remote, definitions in self._views.count_definitions().items():
            pin = self._pins[remote]
            for listed, callers in definitions.values():
                caller_pin = build_caller_pin(pin, listed.definition, listed.hash, trusting=self._is_trusting)
                if not pin.present or listed.hash != hash_definition(pin.seen):
                    yield remote, listed, caller_pin, callers

    def _build_caller_tools(self, caller_key: CallerKey) -> CallerTools:
        """Return how this caller's tools differ from the tools of callers without a listing of their own."""
        view = self._views.get(caller_key) or {}
        tools: dict[str, Tool | None] = {
            self._pins[remote].offered_as: None for remote in self._tools if remote not in view
        }
        for remote, listed in view.items():
            pin = build_caller_pin(self._pins[remote], listed.definition, listed.hash, trusting=self._is_trusting)
            tool, shared_tool = self._build_tool(remote, pin) if pin.is_offered else None, self._tools.get(remote)
            if tool is not shared_tool:
                tools[pin.offered_as] = tool
        return CallerTools(tools)

    def _notify_if_changed(self, caller_key: CallerKey) -> None:
        """Notify this caller, and no other, if the caller's tools have changed."""
        before, after = self._caller_tools.get(caller_key), self._build_caller_tools(caller_key)
        if after.tools != (before.tools if before is not None else {}):
            self._caller_tools[caller_key] = after
            tenant, user = caller_key
            self._deps.on_notification(self.id, TOOLS_CHANGED, {}, Caller(user=user, tenant=tenant))

    def caller_tools(self, caller: Caller) -> CallerTools | None:
        """Return how this caller's tools differ from the shared ones, or None; the same object until they change."""
        if not self.spec.serves(caller):
            return self._hidden if self._hidden.tools else None
        caller_tools = self._caller_tools.get(self.resolve_caller(caller)[0])
        return caller_tools if caller_tools is not None and caller_tools.tools else None

    def on_notification(self, method: str, params: Json, caller: Caller | None) -> None:
        # A change of one caller's tools is reported by `_notify_if_changed`, after they were listed and held to the
        # pins: a client that asked earlier would still get the old list.
        if method != TOOLS_CHANGED or caller is None:
            self._deps.on_notification(self.id, method, params, caller)

    async def on_elicitation(self, connection: object, question: Json, owner: object) -> Json:
        return await self._deps.on_elicitation(connection, question, owner)

    def on_status_change(self) -> None:
        self._deps.on_change()

    def offered_tools(self) -> Mapping[str, Tool]:
        """Return the tools that may be offered now, by their names on the server."""
        return self._tools if self.is_available else {}

    @property
    def is_available(self) -> bool:
        return self.status not in ("stopped", "failed")

    @property
    def is_starting(self) -> bool:
        return self.status in ("starting", "restarting")

    def starts_until(self, max_s: float) -> float:
        """Return until when a server that starts is waited for: its time to connect and `max_s` at most."""
        return (self.record.started_at or 0.0) + min(self.spec.connect_s, max_s)

    def describe_outage(self, caller: Caller) -> str:
        """Return why the server's tools cannot be called now, and what to do; empty if they can be."""
        shared = self._connections.get(SHARED_KEY)
        info = shared.describe() if shared else None
        error = str(mask_secrets(select_visible_error(self._get_error(info), caller)))
        return describe_outage(self.id, self.status, error, is_startable=self._is_startable(info))

    def _get_error(self, info: ConnectionInfo | None) -> str:
        return info.error if info else self.forbidden_reason

    def _is_startable(self, info: ConnectionInfo | None) -> bool:
        return not (info.needs_sign_in if info else self.forbidden_reason)

    def explain_absence(self, remote: str, caller: Caller) -> Problem | None:
        """Return why a tool of this server is not offered to this caller; None if it is, or if there is none."""
        if not self.is_available:
            return to_problem(self.describe_outage(caller), "unavailable")
        view = self._views.get(self.resolve_caller(caller)[0])
        pin, listed = self._pins.get(remote), view.get(remote) if view else None
        if pin is not None and listed is not None:
            pin = build_caller_pin(pin, listed.definition, listed.hash, trusting=self._is_trusting)
        reason = self._describe_tool(remote, pin).explain_absence(self.id) if pin is not None and pin.present else ""
        return to_problem(reason, "unknown_tool") if reason else None

    def unavailable_tools(self) -> Sequence[Tool]:
        """Return the tools that will be offered once the server runs again; none while it runs."""
        return () if self.is_available else tuple(self._tools.values())

    def _build_tool(self, remote: str, pin: Pin) -> Tool:
        names, reserved_names = self._deps.router.list_names(ToolIdentity(self.id, remote)), self._deps.reserved_names()
        former_names = tuple(name for name in names if name != pin.offered_as and name not in reserved_names)
        tool = build_tool(pin.seen, pin.offered_as, self.id, self.spec, is_reviewed=pin.is_reviewed)
        tool = self._deps.apply_rules(replace(tool, alias=self.spec.names.get(remote, ""), former_names=former_names))
        before = self._tools.get(remote)
        return before if before is not None and before == tool else tool

    def build_untrusted(self, tool: Tool) -> Tool:
        """Return a tool as it was before the server was trusted."""
        pin = self._pins.get(tool.remote)
        is_reviewed = pin is not None and pin.is_reviewed
        return self._deps.apply_rules(distrust_tool(tool, is_reviewed=is_reviewed))

    @property
    def capabilities(self) -> Json:
        """Return the capabilities that the server announced over any of its sessions that is open or can be."""
        nothing: Json = {}
        announced = (
            connection.describe().capabilities
            for connection in self._connections.values()
            if connection.status not in ("stopped", "failed")
        )
        return next((capabilities for capabilities in announced if capabilities), nothing)

    @property
    def has_tools(self) -> bool:
        """Return whether any caller has tools; with `auth = "caller"` tools of callers without a session count too."""
        return any(pin.present or self.spec.auth == "caller" for pin in self._pins.values())

    def has_listing_for(self, caller: Caller) -> bool:
        """Return whether the tools were listed for this caller, or for all."""
        return self.spec.auth == "server" or self._views.get(self.resolve_caller(caller)[0]) is not None

    def check_call(self, tool: Tool, caller: Caller) -> ErrorReply | NoReply | None:
        """Return why a call must not be sent over this caller's open session, or None.

        The call was judged by a tool that may come from another caller's listing. The session that has opened since
        may list another definition under that name, so the tool must still be the same and accepted for this caller.
        """
        if self.spec.auth == "server":
            return None
        view, remote = self._views.get(self.resolve_caller(caller)[0]), tool.remote
        if view is None:
            return NoReply("its tools for this caller are not known", read=False)
        if (listed := view.get(remote)) is None:
            return ErrorReply(FORBIDDEN, f"the server {self.id!r} has no tool {remote[:80]!r} for this caller")
        subject = f"the server {self.id!r} lists the tool {remote[:80]!r} for this caller"
        pin = build_caller_pin(self._pins[remote], listed.definition, listed.hash, trusting=self._is_trusting)
        if not pin.is_offered:
            return ErrorReply(
                FORBIDDEN, f"{subject} as nobody has accepted it: an administrator has to accept it first"
            )
        if self._build_tool(remote, pin) != tool:
            return ErrorReply(FORBIDDEN, f"{subject} otherwise than it was offered; nothing was run: ask for it again")
        return None

    def get_pin(self, remote: str) -> Pin | None:
        return self._pins.get(remote)

    def get_definition(self, remote: str, caller: Caller) -> Json:
        """Return the definition that this caller gets for a tool; empty if there is none."""
        view = self._views.get(self.resolve_caller(caller)[0])
        if view is not None:
            return view[remote].definition if remote in view else {}
        pin = self._pins.get(remote)
        return pin.seen if pin is not None else {}

    async def _bind_names(self, remotes: Iterable[str]) -> dict[str, str]:
        """Return the names under which tools are offered. They are stored before anybody is shown them."""
        return await self._deps.name_records.bind(self.id, remotes, self.spec.names)

    def build_card(self) -> ServerCard:
        shared = self._connections.get(SHARED_KEY)
        info = shared.describe() if shared else None
        return ServerCard(
            id=self.id,
            spec=self.spec,
            status=self.status,
            created_at=self.record.created_at,
            started_at=self.record.started_at,
            stopped_at=self.record.stopped_at,
            error=self._get_error(info),
            is_startable=self._is_startable(info),
            process_id=info.process_id if info else None,
            protocol=info.protocol if info else "",
            restarts=max(0, info.sessions - 1) if info else 0,
            sessions=sum(
                connection.status == "running" for connection in (*self._connections.values(), *self.extra_sessions)
            ),
            configured=self.configured,
            log=info.log if info else (),
            tools=tuple(self._list_tools()),
        )

    def _list_tools(self) -> Iterator[ServerTool]:
        """Yield the shared tools, then those of some callers that are not accepted yet or not among the shared ones."""
        listed = {remote for remote, pin in self._pins.items() if pin.present}
        yield from (self._describe_tool(remote, self._pins[remote]) for remote in self._pins if remote in listed)
        for remote, _, pin, callers in self._iter_caller_pins():
            if pin.state != "accepted" or remote not in listed:
                listed.add(remote)
                yield _mention_callers(self._describe_tool(remote, pin), callers)

    def _describe_tool(self, remote: str, pin: Pin) -> ServerTool:
        """Return a tool as it is listed. One that is accepted and cannot be offered is unusable."""
        tool = pin.server_tool
        if tool.state != "accepted":
            return tool
        shared, offered = self._tools.get(remote), self._build_tool(remote, pin)
        defect = self._defects[remote] if offered is shared else self._deps.find_defect(offered)
        return replace(tool, state="unusable", why=defect) if defect else tool


def find_least_needed(connections: Mapping[CallerKey, McpConnection]) -> CallerKey:
    """Return the session to end when there are too many: idle or failed, else without a call; of those, the oldest."""

    def rank(caller_key: CallerKey) -> int:
        connection = connections[caller_key]
        if connection.status in ("idle", "failed"):
            return 0
        return 2 if connection.describe().in_flight else 1

    return min(connections, key=rank)


def _mention_callers(tool: ServerTool, callers: int) -> ServerTool:
    """Return a tool that only some callers get with their number."""
    tool = replace(tool, callers=callers)
    count = "one caller gets it" if callers == 1 else f"{callers} callers get it"
    return tool if tool.state == "accepted" else replace(tool, why=f"as {count}:\n{tool.why}")


class ExtraSessionListener:
    """Listens to an extra session. Its listing is used only for a caller whose own session has not listed yet."""

    def __init__(self, server: ManagedServer) -> None:
        self._server = server
        self.on_notification = server.on_notification
        self.on_elicitation = server.on_elicitation

    async def on_tools_listed(self, tools: list[Json], caller: Caller | None) -> None:
        if caller is not None and not self._server.has_listing_for(caller):
            await self._server.on_tools_listed(tools, caller)

    def on_status_change(self) -> None:
        """Do nothing: a server's state is that of its shared session."""
