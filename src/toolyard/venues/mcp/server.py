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
from toolyard.core.ports import Personal
from toolyard.core.tools import Tool
from toolyard.venues.mcp.auth.grants import Keeper
from toolyard.venues.mcp.catalog.caller_views import Seen, Views, Who
from toolyard.venues.mcp.catalog.definitions import pin_of, tool_of
from toolyard.venues.mcp.catalog.pins import (
    MOST_PINS,
    Pin,
    Pins,
    accepted,
    bounded,
    by_name,
    compared,
    decided,
    for_caller,
    rejected,
)
from toolyard.venues.mcp.catalog.router import Route
from toolyard.venues.mcp.outcomes import FORBIDDEN, Gone, Json, Rejected, SessionKind, Supervised
from toolyard.venues.mcp.sessions.extra_sessions import FurtherSessions
from toolyard.venues.mcp.shared import Home

PINS = "mcp.pins"
MOST_CALLERS = 1000
CALLER_IDLE_S = 600.0
FURTHER_IDLE_S = 60.0
NOBODY: Who = ()
TOOLS_CHANGED = "notifications/tools/list_changed"
_pins = msgspec.json.Decoder(Pins)


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server as the store keeps it."""

    spec: ServerSpec
    created_at: float = 0.0
    wanted: bool = True
    started_at: float | None = None
    stopped_at: float | None = None


class Server:
    def __init__(self, id: str, record: Record, home: Home, *, configured: bool, pins: bytes = b"") -> None:
        self.id = id
        self.record = record
        self.configured = configured
        self.removed = False
        self._home = home
        self._links: dict[Who, Supervised] = {}
        self.further = FurtherSessions(self, id, record.spec)
        self._pins: Pins = _pins.decode(pins) if pins else {}
        self.known = bool(pins)
        """Whether its tools were listed at any time."""
        self._keeping = asyncio.Lock()
        self._tools: dict[str, Tool] = {}
        self._views = Views()
        self._personal: dict[Who, Personal] = {}
        for remote, pin in self._pins.items():
            name = record.spec.names.get(remote, pin.offered_as)
            if name not in home.taken():
                home.router.keep(name, Route(id, remote))
        self._pins = {remote: replace(pin, offered_as=self._name(remote)) for remote, pin in self._pins.items()}
        self._sort_out()

    @property
    def spec(self) -> ServerSpec:
        return self.record.spec

    @property
    def status(self) -> ServerStatus:
        if not self.record.wanted:
            return "stopped"
        if self.spec.auth == "caller" and self.known:
            return "running"
        link = self._links.get(NOBODY)
        return link.status if link else "idle"

    def start(self) -> None:
        """Open its session; that of a server whose callers have their own only to see what it lists."""
        if self.spec.auth == "server" or not self.known:
            self._link(NOBODY, None)

    def stop(self) -> None:
        for link in self._links.values():
            link.stop()
        self._links.clear()
        self.further.end_all()
        self._views.clear()
        self._personal.clear()

    def link(self, caller: Caller) -> Supervised:
        """The session for this caller, opened if there is none."""
        return self._link(*self.seen_as(caller))

    def seen_as(self, caller: Caller) -> tuple[Who, Caller | None]:
        """Whose session this caller uses: the one of all, or its own."""
        return (NOBODY, None) if self.spec.auth == "server" else ((caller.tenant, caller.user), caller)

    def keeper(self, who: Who) -> Keeper:
        return Keeper(self._home.shelf, self.id, who or ("", ""), self.spec.url)

    def renew(self, caller: Caller) -> Supervised:
        """A session with what is kept for this caller now."""
        self._end(self.seen_as(caller)[0])
        return self.link(caller)

    def _end(self, who: Who) -> None:
        if (link := self._links.pop(who, None)) is not None:
            link.stop()
        self.further.end_all(who)
        self._views.forget(who)
        self._personal.pop(who, None)

    def _link(self, who: Who, caller: Caller | None) -> Supervised:
        if (known := self._links.get(who)) is not None:
            return known
        self._make_room()
        made = self._home.connector().link(self.id, self.spec, caller, self, self.keeper(who))
        self._links[who] = made
        self._home.spawn(made.run())
        return made

    def open_further(self, caller: Caller, kind: SessionKind) -> Supervised:
        """Return a new session of this kind beside the one that this caller uses."""
        who, owner = self.seen_as(caller)
        watcher = FurtherWatcher(self)
        link = self._home.connector().link(self.id, self.spec, owner, watcher, self.keeper(who), kind)
        self._home.spawn(link.run())
        return link

    async def note_push(self, remote: str) -> None:
        """Remember that a tool asks in a way that the new era does not have."""
        async with self._keeping:
            pin = self._pins.get(remote)
            if pin is not None and not pin.pushes:
                await self._keep({**self._pins, remote: replace(pin, pushes=True)})

    def _make_room(self) -> None:
        if len(self._links) >= MOST_CALLERS:
            self._end(least_needed(self._links))

    async def listed(self, tools: list[Json], caller: Caller | None) -> None:
        """What it lists now, to all or to one. Kept before anybody is offered it."""
        who = NOBODY if caller is None else self.seen_as(caller)[0]
        async with self._keeping:
            if self.known and self.spec.auth == "caller":
                await self._keep(self._joined(by_name(tools)))
            else:
                before = self._pins if self.known else None
                await self._keep(compared(before, tools, trusting=self._trusting, name=self._name))
            if who in self._links and who != NOBODY:
                self._views.see(who, tools)
                self._tell(who)
        self._home.changed()
        if self.spec.auth == "caller":
            self._end(NOBODY)  # it has served: from here on each caller has a session

    def _joined(self, tools: Mapping[str, Json]) -> Pins:
        """The pins with those of what only one caller has been listed so far: they hold the names."""
        strange = {
            remote: Pin(offered_as=self._name(remote), seen=definition, present=False)
            for remote, definition in tools.items()
            if remote not in self._pins
        }
        pins = {**self._pins, **strange}
        return pins if len(pins) <= MOST_PINS else bounded(pins, {*tools, *self._views.definitions()})

    async def accept(self, tools: Collection[str] = ()) -> None:
        await self._decide(accepted, tuple(tools), accept=True)

    async def reject(self, tools: Collection[str] = ()) -> None:
        await self._decide(rejected, tuple(tools), accept=False)

    async def _decide(self, all: Callable[[Pins, Sequence[str]], Pins], tools: Sequence[str], *, accept: bool) -> None:
        """For what all get, and for what only some do. A no to a name is one to all that was accepted of it."""
        async with self._keeping:
            pins = all(self._pins, tools)
            meant = {} if accept else {remote: [*pins[remote].said] for remote in tools}
            for remote, seen, pin, _ in self._apart():
                if remote in tools if tools else pin.waits:
                    meant.setdefault(remote, []).append(seen.hash)
            await self._keep(pins | {remote: decided(pins[remote], meant[remote], accept) for remote in meant})
            for who in self._views:
                self._tell(who)
        self._home.changed()

    async def _keep(self, pins: Pins) -> None:
        if not self.removed and (pins != self._pins or not self.known):
            await self._home.shelf.shelve(PINS, self.id, msgspec.json.encode(pins))
            for gone in self._pins.keys() - pins.keys():
                self._home.router.drop(Route(self.id, gone))
            self._pins, self.known = pins, True
            self._sort_out()

    def _sort_out(self) -> None:
        """Which tools may be offered; those that are as they were stay the same objects."""
        self._tools = {remote: self._tool(remote, pin) for remote, pin in self._pins.items() if pin.offered}
        # Made once for all callers of other tenants, who share one table of tools as long as it is the same object.
        self._hidden = Personal({tool.name: None for tool in self._tools.values()})

    @property
    def _trusting(self) -> bool:
        return self.spec.pin == "off"

    def _apart(self) -> Iterator[tuple[str, Seen, Pin, int]]:
        """Each definition that only some callers get, with its pin as it is for them, and how many they are."""
        for remote, known in self._views.definitions().items():
            pin = self._pins[remote]
            for seen, callers in known.values():
                own = for_caller(pin, seen.definition, seen.hash, trusting=self._trusting)
                if not pin.present or seen.hash != pin_of(pin.seen):
                    yield remote, seen, own, callers

    def _personally(self, who: Who) -> Personal:
        """How what this caller gets differs from what those get of whom nothing is known."""
        view = self._views.of(who) or {}
        tools: dict[str, Tool | None] = {
            self._pins[remote].offered_as: None for remote in self._tools if remote not in view
        }
        for remote, seen in view.items():
            pin = for_caller(self._pins[remote], seen.definition, seen.hash, trusting=self._trusting)
            tool, all_get = self._tool(remote, pin) if pin.offered else None, self._tools.get(remote)
            if tool is not all_get:
                tools[pin.offered_as] = tool
        return Personal(tools)

    def _tell(self, who: Who) -> None:
        """A caller hears of it whose tools are others than before, and nobody else."""
        before, now = self._personal.get(who), self._personally(who)
        if now.tools != (before.tools if before is not None else {}):
            self._personal[who] = now
            tenant, user = who
            self._home.notified(self.id, TOOLS_CHANGED, {}, Caller(user=user, tenant=tenant))

    def personal(self, caller: Caller) -> Personal | None:
        """What this caller gets otherwise than those of whom nothing is known; the same object as long as it is so."""
        if not self.spec.serves(caller):
            return self._hidden if self._hidden.tools else None
        found = self._personal.get(self.seen_as(caller)[0])
        return found if found is not None and found.tools else None

    def notified(self, method: str, params: Json, caller: Caller | None) -> None:
        if method != TOOLS_CHANGED or caller is None:  # what a caller's own list comes to is told once it is known
            self._home.notified(self.id, method, params, caller)

    async def elicited(self, link: object, question: Json, owner: object) -> Json:
        return await self._home.elicited(link, question, owner)

    def changed(self) -> None:
        self._home.changed()

    def tools(self) -> Mapping[str, Tool]:
        """What may be offered now, by the names there."""
        return self._tools if self.is_available else {}

    @property
    def is_available(self) -> bool:
        return self.status not in ("stopped", "failed")

    def unavailable_tools(self) -> Sequence[Tool]:
        """Return what may be offered once it runs again; nothing while it does."""
        return () if self.is_available else tuple(self._tools.values())

    def _tool(self, remote: str, pin: Pin) -> Tool:
        made = self._home.ruled(tool_of(pin.seen, pin.offered_as, self.id, self.spec))
        if alias := self.spec.names.get(remote, ""):
            made = replace(made, alias=alias)
        before = self._tools.get(remote)
        return before if before is not None and before == made else made

    @property
    def capabilities(self) -> Json:
        """What it says that it can do, by whichever of its sessions is open, or will be when it is asked."""
        nothing: Json = {}
        told = (link.told().capabilities for link in self._links.values() if link.status not in ("stopped", "failed"))
        return next((one for one in told if one), nothing)

    @property
    def has_tools(self) -> bool:
        """Whether it has any for anybody; what only some callers ever got counts, though they be away."""
        return any(pin.present or self.spec.auth == "caller" for pin in self._pins.values())

    def knows(self, caller: Caller) -> bool:
        """Whether it is known what this caller gets."""
        return self.spec.auth == "server" or self._views.of(self.seen_as(caller)[0]) is not None

    def barred(self, tool: Tool, caller: Caller) -> Rejected | Gone | None:
        """Why a tool may not be run for this caller, who has a session now, as it was when its call was judged."""
        if self.spec.auth == "server":
            return None
        view, remote = self._views.of(self.seen_as(caller)[0]), tool.remote
        if view is None:
            return Gone("it is not known what it lists for this caller", read=False)
        if (seen := view.get(remote)) is None:
            return Rejected(FORBIDDEN, f"the server {self.id!r} has no tool {remote[:80]!r} for this caller")
        said = f"the server {self.id!r} lists the tool {remote[:80]!r} for this caller"
        pin = for_caller(self._pins[remote], seen.definition, seen.hash, trusting=self._trusting)
        if not pin.offered:
            return Rejected(FORBIDDEN, f"{said} as nobody has accepted it: an administrator has to accept it first")
        if self._tool(remote, pin) != tool:
            return Rejected(FORBIDDEN, f"{said} otherwise than it was offered; nothing was run: ask for it again")
        return None

    def pin(self, remote: str) -> Pin | None:
        return self._pins.get(remote)

    def definition(self, remote: str, caller: Caller) -> Json:
        """A tool as it is listed for this caller; empty if it is not."""
        view = self._views.of(self.seen_as(caller)[0])
        if view is not None:
            return view[remote].definition if remote in view else {}
        pin = self._pins.get(remote)
        return pin.seen if pin is not None else {}

    def _name(self, remote: str) -> str:
        wanted = self.spec.names.get(remote, "")
        return self._home.router.give(Route(self.id, remote), self._home.taken(), wanted)

    def card(self) -> ServerCard:
        shared = self._links.get(NOBODY)
        told = shared.told() if shared else None
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
            sessions=sum(link.status == "running" for link in (*self._links.values(), *self.further)),
            configured=self.configured,
            log=told.log if told else (),
            tools=tuple(self._shown()),
        )

    def _shown(self) -> Iterator[ServerTool]:
        """What all get; then, where it is another or nobody has accepted it yet, what only some do."""
        known = {remote for remote, pin in self._pins.items() if pin.present}
        yield from (self._pins[remote].shown for remote in self._pins if remote in known)
        for remote, _, pin, callers in self._apart():
            if pin.state != "accepted" or remote not in known:
                known.add(remote)
                yield _shown(pin, callers)


def least_needed(links: Mapping[Who, Supervised]) -> Who:
    """Of very many sessions one that sleeps, or failed; else one without a call; of those, the oldest."""

    def need(who: Who) -> int:
        return 0 if links[who].status in ("idle", "failed") else 2 if links[who].told().in_flight else 1

    return min(links, key=need)


def _shown(pin: Pin, callers: int) -> ServerTool:
    """What only some callers get says so."""
    shown = replace(pin.shown, callers=callers)
    said = "one caller gets it" if callers == 1 else f"{callers} callers get it"
    return shown if shown.state == "accepted" else replace(shown, why=f"as {said}:\n{shown.why}")


class FurtherWatcher:
    """Hears what a further session tells. Its list of tools is nobody's: callers get the shared session's."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.notified = server.notified
        self.elicited = server.elicited

    async def listed(self, tools: list[Json], caller: Caller | None) -> None:
        if caller is not None and not self._server.knows(caller):
            await self._server.listed(tools, caller)

    def changed(self) -> None:
        """Do nothing: a server's state is that of its shared session."""
