"""The interfaces between the servers and the rest: the connector, the listener of a connection, shared dependencies."""

from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import Protocol

from toolyard.core.caller import Caller
from toolyard.core.json_types import Json
from toolyard.core.ports import Clock, NotificationHandler
from toolyard.core.store import SharedKeyValue
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.mcp_servers import ServerSpec, SignInAnswer
from toolyard.observability.auditor import Auditor
from toolyard.venues.mcp.auth.grants import Grant, GrantStore, OpenSignIn
from toolyard.venues.mcp.auth.sealed_records import SealedRecords
from toolyard.venues.mcp.catalog.records import NameRecords, PinRecords
from toolyard.venues.mcp.catalog.router import Router
from toolyard.venues.mcp.outcomes import SHARED, McpConnection, SessionKind


class ConnectionListener(Protocol):
    """Receives what a session of a server reports."""

    async def on_tools_listed(self, tools: list[Json], caller: Caller | None) -> None: ...

    def on_notification(self, method: str, params: Json, caller: Caller | None) -> None:
        """Handle a notification. `caller` owns the session that it came over; None means the shared session."""
        ...

    async def on_elicitation(self, connection: object, question: Json, owner: object) -> Json: ...

    def on_status_change(self) -> None: ...


class Connector(Protocol):
    """Creates connections. It is imported when the first server is started, because it loads the SDK."""

    def create_connection(
        self,
        server: str,
        spec: ServerSpec,
        caller: Caller | None,
        listener: ConnectionListener,
        grant_store: GrantStore,
        kind: SessionKind = SHARED,
        *,
        is_public_only: Callable[[], bool],
    ) -> McpConnection:
        """Return a connection. `is_public_only` tells, at each attempt, whether to refuse private addresses."""
        ...

    async def begin_sign_in(
        self, spec: ServerSpec, caller: Caller | None, grant_store: GrantStore, redirect_uri: str, *, public_only: bool
    ) -> OpenSignIn:
        """Return the page at which a person signs in. Raise Refused or Unavailable."""
        ...

    async def finish_sign_in(
        self,
        spec: ServerSpec,
        caller: Caller | None,
        sign_in: OpenSignIn,
        answer: SignInAnswer,
        *,
        public_only: bool,
    ) -> Grant:
        """Return the grant that the answer of the page leads to. Raise Refused or Unavailable."""
        ...

    def validate(self, schema: object, content: object) -> str:
        """Return the errors of the answer to a form, or of a structured result; empty if it is valid."""
        ...

    def close(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class ServerDependencies:
    """What all servers share."""

    get_connector: Callable[[], Connector]
    store: SharedKeyValue
    sealed_records: SealedRecords
    pin_records: PinRecords
    name_records: NameRecords
    clock: Clock
    auditor: Auditor
    router: Router
    reserved_names: Callable[[], Collection[str]]
    """Returns the names of the tools of other venues."""
    apply_rules: Callable[[Tool], Tool]
    """Returns a tool with the rules that the configuration sets for it."""
    find_defect: Callable[[Tool], str]
    """Returns why a tool cannot be offered to models; empty if it can be."""
    allows_private: Callable[[], bool]
    """Returns whether servers that were added at run time may be at private addresses."""
    spawn: Callable[[Coroutine[object, object, None]], object]
    on_change: Callable[[], None]
    on_notification: NotificationHandler
    on_elicitation: Callable[[object, Json, object], Coroutine[None, None, Json]]
    """Puts a question to the user: the connection it came over, the question, and the owner of its call if known."""
