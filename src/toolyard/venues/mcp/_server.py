"""One server: its sessions, its tools, and which of them are accepted. It does not know how a session is held.

Most servers have one session that everybody shares. One whose `auth` is `caller` has a session for each user of each
tenant; what it lists is known from whoever came first, and no session is ever another one's.
"""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.ports import Heard, Mint, Shelf
from toolyard.core.servers import ServerCard, ServerSpec, ServerStatus, SignInAnswer
from toolyard.core.tools import Tool
from toolyard.venues.mcp._answers import Json, Supervised
from toolyard.venues.mcp._definitions import tool_of
from toolyard.venues.mcp._grants import Keeper
from toolyard.venues.mcp._pins import Pin, Pins, accepted, compared, rejected
from toolyard.venues.mcp.router import Route, Router

PINS = "mcp.pins"
MOST_CALLERS = 1000
CALLER_IDLE_S = 600.0
Who = tuple[str, str]
"""A tenant and a user; of a shared session, neither."""
_pins = msgspec.json.Decoder(Pins)


class Watcher(Protocol):
    """Who is told what a session of a server has to tell."""

    async def listed(self, tools: list[Json]) -> None: ...

    def notified(self, method: str, params: Json, caller: Caller | None) -> None:
        """`caller` is whose session it came over; None means everybody's."""
        ...

    async def elicited(self, link: object, question: Json, owner: object) -> Json: ...

    def changed(self) -> None: ...


class Connector(Protocol):
    """Makes links; loaded when the first server is started, because it takes the SDK along."""

    def link(
        self, server: str, spec: ServerSpec, caller: Caller | None, watcher: Watcher, keeper: Keeper
    ) -> Supervised: ...

    async def sign_in(
        self,
        spec: ServerSpec,
        caller: Caller | None,
        keeper: Keeper,
        redirect_uri: str,
        show: Callable[[str], None],
        answer: Awaitable[SignInAnswer],
    ) -> None:
        """Have a person sign in, at the page that is shown. Raises Refused or Unavailable."""
        ...

    def unfit(self, schema: object, content: object) -> str:
        """What is wrong with the answer to a form, or a structured result; empty if nothing is."""
        ...

    def close(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class Home:
    """What the servers share."""

    connector: Callable[[], Connector]
    shelf: Shelf
    mint: Mint
    router: Router
    taken: Callable[[], Collection[str]]
    """Names that tools of other venues have."""
    ruled: Callable[[Tool], Tool]
    """A tool with the rules that the configuration sets for it."""
    spawn: Callable[[Coroutine[object, object, None]], object]
    changed: Callable[[], None]
    notified: Heard
    elicited: Callable[[object, Json, object], Coroutine[None, None, Json]]
    """A question to the user: the link it came over, what is asked, and whose call it belongs to, if that is known."""


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
        self._pins: Pins = _pins.decode(pins) if pins else {}
        self._tools: dict[str, Tool] = {}
        for remote, pin in self._pins.items():
            home.router.keep(record.spec.names.get(remote, pin.offered_as), Route(id, remote))
        self._pins = {remote: replace(pin, offered_as=self._name(remote)) for remote, pin in self._pins.items()}
        self._sort_out()

    @property
    def spec(self) -> ServerSpec:
        return self.record.spec

    @property
    def known(self) -> bool:
        """Whether its tools were listed at any time."""
        return bool(self._pins)

    @property
    def status(self) -> ServerStatus:
        if not self.record.wanted:
            return "stopped"
        if self.spec.auth == "caller" and self._pins:
            return "running"
        link = self._links.get(("", ""))
        return link.status if link else "idle"

    def start(self) -> None:
        """Open its session; that of a server whose callers have their own only to see what it lists."""
        if self.spec.auth == "server" or not self.known:
            self._link(("", ""), None)

    def stop(self) -> None:
        for link in self._links.values():
            link.stop()
        self._links.clear()

    def link(self, caller: Caller) -> Supervised:
        """The session for this caller, opened if there is none."""
        return self._link(*self.seen_as(caller))

    def seen_as(self, caller: Caller) -> tuple[Who, Caller | None]:
        """Whose session this caller uses: the one of all, or its own."""
        return (("", ""), None) if self.spec.auth == "server" else ((caller.tenant, caller.user), caller)

    def keeper(self, who: Who) -> Keeper:
        return Keeper(self._home.shelf, self.id, who, self.spec.url)

    def renew(self, caller: Caller) -> Supervised:
        """A session with what is kept for this caller now."""
        who, _ = self.seen_as(caller)
        if (before := self._links.pop(who, None)) is not None:
            before.stop()
        return self.link(caller)

    def _link(self, who: Who, caller: Caller | None) -> Supervised:
        if (known := self._links.get(who)) is not None:
            return known
        self._make_room()
        made = self._home.connector().link(self.id, self.spec, caller, self, self.keeper(who))
        self._links[who] = made
        self._home.spawn(made.run())
        return made

    def _make_room(self) -> None:
        """Of very many callers those go first whose sessions sleep, or failed; then whoever came first."""
        if len(self._links) >= MOST_CALLERS:
            asleep = next((who for who, link in self._links.items() if link.status in ("idle", "failed")), None)
            self._links.pop(asleep or next(iter(self._links))).stop()

    async def listed(self, tools: list[Json]) -> None:
        """What it lists now. Kept before anybody is offered it."""
        trusting, whole = self.spec.pin == "off", self.spec.auth == "server"
        found = compared(self._pins, tools, trusting=trusting, name=self._name, whole=whole)
        await self._keep(found)
        if self.spec.auth == "caller" and (seen := self._links.pop(("", ""), None)):
            seen.stop()  # it has served: from here on each caller has a session

    async def accept(self, tools: Collection[str] = ()) -> None:
        await self._keep(accepted(self._pins, tuple(tools)))

    async def reject(self, tools: Collection[str] = ()) -> None:
        await self._keep(rejected(self._pins, tuple(tools)))

    async def _keep(self, pins: Pins) -> None:
        if self.removed:
            return
        if pins != self._pins:
            await self._home.shelf.shelve(PINS, self.id, msgspec.json.encode(pins))
            self._pins = pins
            self._sort_out()
        self._home.changed()

    def _sort_out(self) -> None:
        """Which tools may be offered; those that are as they were stay the same objects."""
        self._tools = {remote: self._tool(remote, pin) for remote, pin in self._pins.items() if pin.offered}

    def notified(self, method: str, params: Json, caller: Caller | None) -> None:
        self._home.notified(self.id, method, params, caller)

    async def elicited(self, link: object, question: Json, owner: object) -> Json:
        return await self._home.elicited(link, question, owner)

    def changed(self) -> None:
        self._home.changed()

    def tools(self) -> Mapping[str, Tool]:
        """What may be offered now, by the names there."""
        return {} if self.status in ("stopped", "failed") else self._tools

    def _tool(self, remote: str, pin: Pin) -> Tool:
        made = self._home.ruled(tool_of(pin.seen, pin.offered_as, self.id, self.spec))
        before = self._tools.get(remote)
        return before if before is not None and before == made else made

    @property
    def capabilities(self) -> Json:
        """What it says that it can do, by whichever of its sessions is open."""
        nothing: Json = {}
        told = (link.told().capabilities for link in self._links.values() if link.status == "running")
        return next((one for one in told if one), nothing)

    def pin(self, remote: str) -> Pin | None:
        return self._pins.get(remote)

    def _name(self, remote: str) -> str:
        wanted = self.spec.names.get(remote, "")
        return self._home.router.give(Route(self.id, remote), self._home.taken(), wanted)

    def card(self) -> ServerCard:
        shared = self._links.get(("", ""))
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
            sessions=sum(link.status == "running" for link in self._links.values()),
            configured=self.configured,
            log=told.log if told else (),
            tools=tuple(pin.shown for pin in self._pins.values() if pin.present),
        )
