"""Creates connections to servers with the MCP SDK. In this venue only this module, with what it imports, loads it."""

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from toolyard.core.caller import Caller
from toolyard.core.json_types import Json
from toolyard.core.tools.mcp_servers import ServerSpec, SignInAnswer
from toolyard.venues.mcp.auth.grants import Grant, GrantStore, OpenSignIn
from toolyard.venues.mcp.auth.oauth import build_auth
from toolyard.venues.mcp.auth.sign_in import begin_sign_in, finish_sign_in
from toolyard.venues.mcp.calls.schema_check import SchemaValidators
from toolyard.venues.mcp.dependencies import ConnectionListener
from toolyard.venues.mcp.outcomes import SHARED, Era, McpConnection, SessionKind
from toolyard.venues.mcp.server import CALLER_IDLE_S, EXTRA_IDLE_S
from toolyard.venues.mcp.sessions.child_reaper import ChildReaper
from toolyard.venues.mcp.sessions.session import SessionHooks, UpstreamSession, open_session
from toolyard.venues.mcp.sessions.stderr_log import StderrLog
from toolyard.venues.mcp.sessions.supervisor import SessionSupervisor
from toolyard.venues.mcp.sessions.transports import fill_placeholders, select_transport


class SdkConnector:
    """A `Connector` that uses the official SDK."""

    def __init__(self) -> None:
        self._reaper = ChildReaper()
        self._validators = SchemaValidators()
        # The SDK's log of the sign-in quotes tokens. The reason of a failure is reported by `auth` instead.
        logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL + 1)

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
        stderr_log = StderrLog(server)

        async def elicit(question: Json, owner: object) -> Json:
            return await listener.on_elicitation(supervisor, question, owner)

        hooks = SessionHooks(
            on_tools_listed=lambda tools: listener.on_tools_listed(tools, caller),
            on_notification=lambda method, params: listener.on_notification(method, params, caller),
            on_elicitation=elicit,
            claims=kind.claims,
        )
        open_transport = select_transport(
            spec, caller, stderr_log, self._reaper, lambda: build_auth(server, spec, grant_store), is_public_only
        )

        def connect(era: Era) -> AbstractAsyncContextManager[UpstreamSession]:
            session_era: Era = "legacy" if spec.protocol == "2025-11-25" or kind.era == "legacy" else era
            return open_session(open_transport, hooks, connect_s=spec.connect_s, list_s=spec.list_s, era=session_era)

        supervisor = SessionSupervisor(
            server,
            connect,
            stderr_log,
            idle_s=_idle_s(spec, caller, kind),
            on_status_change=listener.on_status_change,
            single_era=kind.era == "legacy",
            url=spec.url,
        )
        return supervisor

    async def begin_sign_in(
        self, spec: ServerSpec, caller: Caller | None, grant_store: GrantStore, redirect_uri: str, *, public_only: bool
    ) -> OpenSignIn:
        headers = fill_placeholders(spec.headers, caller)
        return await begin_sign_in(spec, grant_store, redirect_uri, headers, public_only=public_only)

    async def finish_sign_in(
        self,
        spec: ServerSpec,
        caller: Caller | None,
        sign_in: OpenSignIn,
        answer: SignInAnswer,
        *,
        public_only: bool,
    ) -> Grant:
        return await finish_sign_in(sign_in, answer, fill_placeholders(spec.headers, caller), public_only=public_only)

    def validate(self, schema: object, content: object) -> str:
        return self._validators.validate(schema, content)

    def close(self) -> None:
        self._reaper.close()


def _idle_s(spec: ServerSpec, caller: Caller | None, kind: SessionKind) -> float:
    """Return how long a session is kept open without a call; zero means without limit."""
    if kind.number:
        return min(spec.idle_s or EXTRA_IDLE_S, EXTRA_IDLE_S)
    # A session for the capabilities of some clients holds the state of their calls, as one of a single caller does.
    return spec.idle_s or (CALLER_IDLE_S if caller is not None or kind.claims else 0.0)
