"""What the servers share, and what they need of others: whoever makes their links, and who hears of what they tell."""

from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import Protocol

from toolyard.core.caller import Caller
from toolyard.core.mcp_servers import ServerSpec, SignInAnswer
from toolyard.core.ports import Clock, NotificationHandler
from toolyard.core.store import KeyValue
from toolyard.core.tools import Tool
from toolyard.venues.mcp.auth.grants import GrantStore
from toolyard.venues.mcp.catalog.router import Router
from toolyard.venues.mcp.outcomes import SHARED, Json, McpConnection, SessionKind


class ConnectionListener(Protocol):
    """Who is told what a session of a server has to tell."""

    async def on_tools_listed(self, tools: list[Json], caller: Caller | None) -> None: ...

    def on_notification(self, method: str, params: Json, caller: Caller | None) -> None:
        """`caller` is whose session it came over; None means everybody's."""
        ...

    async def on_elicitation(self, connection: object, question: Json, owner: object) -> Json: ...

    def on_status_change(self) -> None: ...


class Connector(Protocol):
    """Makes links; loaded when the first server is started, because it takes the SDK along."""

    def create_connection(
        self,
        server: str,
        spec: ServerSpec,
        caller: Caller | None,
        listener: ConnectionListener,
        grant_store: GrantStore,
        kind: SessionKind = SHARED,
    ) -> McpConnection: ...

    async def sign_in(
        self,
        spec: ServerSpec,
        caller: Caller | None,
        grant_store: GrantStore,
        redirect_uri: str,
        show: Callable[[str], None],
        answer: Awaitable[SignInAnswer],
    ) -> None:
        """Have a person sign in, at the page that is shown. Raises Refused or Unavailable."""
        ...

    def validate(self, schema: object, content: object) -> str:
        """What is wrong with the answer to a form, or a structured result; empty if nothing is."""
        ...

    def close(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class ServerDependencies:
    """What the servers share."""

    get_connector: Callable[[], Connector]
    store: KeyValue
    clock: Clock
    router: Router
    reserved_names: Callable[[], Collection[str]]
    """Names that tools of other venues have."""
    apply_rules: Callable[[Tool], Tool]
    """A tool with the rules that the configuration sets for it."""
    spawn: Callable[[Coroutine[object, object, None]], object]
    on_change: Callable[[], None]
    on_notification: NotificationHandler
    on_elicitation: Callable[[object, Json, object], Coroutine[None, None, Json]]
    """A question to the user: the link it came over, what is asked, and whose call it belongs to, if that is known."""
