"""Try a server: connect to it, list its tools, and end the session. Nothing is stored, and no tool is offered."""

import asyncio

from toolyard.core.caller import Caller
from toolyard.core.json_types import Json
from toolyard.core.masking import shorten_address
from toolyard.core.tools.mcp_servers import ServerSpec, ServerTrial
from toolyard.venues.mcp.auth.grants import GrantStore
from toolyard.venues.mcp.dependencies import ServerDependencies

TRIAL = "~trial"
"""In the place of the server's id, which no server has: it must not use the grant of another server."""
MAX_TOOLS = 500


class _TrialListener:
    """Keeps the first list of tools, and notices when the session has failed."""

    def __init__(self) -> None:
        self.tools: list[Json] | None = None
        self.changed = asyncio.Event()

    async def on_tools_listed(self, tools: list[Json], caller: Caller | None) -> None:
        self.tools = tools
        self.changed.set()

    def on_notification(self, method: str, params: Json, caller: Caller | None) -> None:
        pass

    async def on_elicitation(self, connection: object, question: Json, owner: object) -> Json:
        raise LookupError("nobody is here to answer")

    def on_status_change(self) -> None:
        self.changed.set()


async def try_server(deps: ServerDependencies, spec: ServerSpec, caller: Caller, timeout_s: float) -> ServerTrial:
    """Return what a server answers. A server with sessions of callers is tried as this caller."""
    listener = _TrialListener()
    owner = caller if spec.auth == "caller" else None
    grants = GrantStore(deps.sealed_records, TRIAL, (), spec.url)
    connection = deps.get_connector().create_connection(
        TRIAL, spec, owner, listener, grants, is_public_only=lambda: not deps.allows_private()
    )
    deps.spawn(connection.run())
    error = ""
    try:
        async with asyncio.timeout(timeout_s):
            while listener.tools is None and not connection.describe().error:
                listener.changed.clear()
                await listener.changed.wait()
    except TimeoutError:
        error = f"it did not list its tools within {timeout_s:g} s"
    finally:
        info = connection.describe()
        connection.stop()
    tools = listener.tools
    return ServerTrial(
        ok=tools is not None,
        error="" if tools is not None else info.error or error,
        needs_sign_in=info.needs_sign_in,
        protocol=info.protocol,
        tools=tuple((tools or ())[:MAX_TOOLS]),
        log=info.log,
    )


def describe_target(spec: ServerSpec) -> str:
    """Return what is tried, for the audit log: the address without credentials, or the program."""
    return shorten_address(spec.url) if spec.url else spec.command
