"""What the servers share, and what they need of others: whoever makes their links, and who hears of what they tell."""

from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import Protocol

from toolyard.core.caller import Caller
from toolyard.core.mcp_servers import ServerSpec, SignInAnswer
from toolyard.core.ports import Heard, Mint
from toolyard.core.store import Shelf
from toolyard.core.tools import Tool
from toolyard.venues.mcp.auth.grants import Keeper
from toolyard.venues.mcp.catalog.router import Router
from toolyard.venues.mcp.outcomes import SHARED, Json, SessionKind, Supervised


class Watcher(Protocol):
    """Who is told what a session of a server has to tell."""

    async def listed(self, tools: list[Json], caller: Caller | None) -> None: ...

    def notified(self, method: str, params: Json, caller: Caller | None) -> None:
        """`caller` is whose session it came over; None means everybody's."""
        ...

    async def elicited(self, link: object, question: Json, owner: object) -> Json: ...

    def changed(self) -> None: ...


class Connector(Protocol):
    """Makes links; loaded when the first server is started, because it takes the SDK along."""

    def link(
        self,
        server: str,
        spec: ServerSpec,
        caller: Caller | None,
        watcher: Watcher,
        keeper: Keeper,
        kind: SessionKind = SHARED,
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
