"""Makes the links to servers: where the SDK is loaded. It does not know what is done with what they tell."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from toolyard.core.caller import Caller
from toolyard.core.mcp_servers import ServerSpec, SignInAnswer
from toolyard.venues.mcp.auth.grants import Keeper
from toolyard.venues.mcp.auth.oauth import signing
from toolyard.venues.mcp.auth.sign_in import sign_in
from toolyard.venues.mcp.calls.schema_check import Forms
from toolyard.venues.mcp.outcomes import SHARED, Era, Json, SessionKind, Supervised
from toolyard.venues.mcp.server import CALLER_IDLE_S, FURTHER_IDLE_S
from toolyard.venues.mcp.sessions.child_reaper import Warden
from toolyard.venues.mcp.sessions.session import Hooks, Session, connected
from toolyard.venues.mcp.sessions.stderr_log import Said
from toolyard.venues.mcp.sessions.supervisor import Link
from toolyard.venues.mcp.sessions.transports import filled_in, streams
from toolyard.venues.mcp.shared import Watcher


class SdkConnector:
    """Sessions by the official SDK."""

    def __init__(self) -> None:
        self._warden = Warden()
        self._forms = Forms()
        logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL + 1)  # it quotes tokens; we tell what failed

    def link(
        self,
        server: str,
        spec: ServerSpec,
        caller: Caller | None,
        watcher: Watcher,
        keeper: Keeper,
        kind: SessionKind = SHARED,
    ) -> Supervised:
        said = Said(server)

        async def elicited(question: Json, owner: object) -> Json:
            return await watcher.elicited(made, question, owner)

        hooks = Hooks(
            listed=lambda tools: watcher.listed(tools, caller),
            notified=lambda method, params: watcher.notified(method, params, caller),
            elicited=elicited,
            claims=kind.claims,
        )
        opened = streams(spec, caller, said, self._warden, lambda: signing(server, spec, keeper))

        def connect(era: Era) -> AbstractAsyncContextManager[Session]:
            known: Era = "legacy" if spec.protocol == "2025-11-25" or kind.era == "legacy" else era
            return connected(opened, hooks, connect_s=spec.connect_s, list_s=spec.list_s, era=known)

        legacy = kind.era == "legacy"
        made = Link(server, connect, said, idle_s=_idle_s(spec, caller, kind), changed=watcher.changed, one_era=legacy)
        return made

    async def sign_in(
        self,
        spec: ServerSpec,
        caller: Caller | None,
        keeper: Keeper,
        redirect_uri: str,
        show: Callable[[str], None],
        answer: Awaitable[SignInAnswer],
    ) -> None:
        await sign_in(spec, keeper, redirect_uri, show, answer, filled_in(spec.headers, caller))

    def unfit(self, schema: object, content: object) -> str:
        return self._forms.unfit(schema, content)

    def close(self) -> None:
        self._warden.close()


def _idle_s(spec: ServerSpec, caller: Caller | None, kind: SessionKind) -> float:
    """Return how long a session without a call is kept; zero means for ever."""
    if kind.number or kind.claims:
        return min(spec.idle_s or FURTHER_IDLE_S, FURTHER_IDLE_S)
    return spec.idle_s or (CALLER_IDLE_S if caller is not None else 0.0)
