"""How a server is reached: over the pipes of a child, or over HTTP. Who asks may stand in what is sent along.

Over HTTP each request is marked with what became of it on the way, so that a call that never left is told from one
whose answer was lost; and a failure of one request is not the end of the others.
"""

import re
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from toolyard.core.caller import Caller
from toolyard.core.mcp_servers import ServerSpec
from toolyard.venues.mcp.auth.oauth import RequestAuth, SignInRequired
from toolyard.venues.mcp.bounded_http import UNCOMPRESSED, limit_response
from toolyard.venues.mcp.dispatcher import RecordingDispatcher, get_current_request
from toolyard.venues.mcp.sessions.child_reaper import ChildReaper
from toolyard.venues.mcp.sessions.session import OpenTransport
from toolyard.venues.mcp.sessions.stderr_log import StderrLog
from toolyard.venues.mcp.sessions.stdio import MAX_MESSAGE_BYTES, ChildProcess, run_child

ANSWER_S = 30.0
SILENCE_S = 600.0
"""A call has its own deadline; a stream on which nothing comes for so long is given up."""
AuthFactory = Callable[[], Awaitable[RequestAuth]]
_PLACEHOLDERS = re.compile(r"\{user\}|\{tenant\}")


def select_transport(
    spec: ServerSpec, caller: Caller | None, stderr_log: StderrLog, reaper: ChildReaper, make_auth: AuthFactory
) -> OpenTransport:
    async def open_stdio(stack: AsyncExitStack) -> tuple[RecordingDispatcher, ChildProcess | None]:
        env = fill_placeholders(spec.env, caller)
        made = await stack.enter_async_context(run_child(spec.command, spec.args, env, spec.cwd, stderr_log, reaper))
        return RecordingDispatcher(made.incoming, made.outgoing), made

    async def open_windows_stdio(stack: AsyncExitStack) -> tuple[RecordingDispatcher, ChildProcess | None]:
        """The SDK's own: ours is made for POSIX. What is lost with the child may then always have been read."""
        env = fill_placeholders(spec.env, caller)
        made = StdioServerParameters(command=spec.command, args=list(spec.args), env=env, cwd=spec.cwd or None)
        return RecordingDispatcher(*await stack.enter_async_context(stdio_client(made))), None

    async def open_http(stack: AsyncExitStack) -> tuple[RecordingDispatcher, ChildProcess | None]:
        auth = await make_auth()
        stack.enter_context(_explain_refusal(auth))
        client = httpx2.AsyncClient(
            headers={**UNCOMPRESSED, **fill_placeholders(spec.headers, caller)},
            timeout=httpx2.Timeout(ANSWER_S, read=SILENCE_S),
            transport=_TrackingTransport(),
            auth=auth,
        )
        await stack.enter_async_context(client)
        opened = streamable_http_client(spec.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES)
        return RecordingDispatcher(*await stack.enter_async_context(opened)), None

    if spec.url:
        return open_http
    return open_windows_stdio if sys.platform == "win32" else open_stdio


@contextmanager
def _explain_refusal(auth: RequestAuth) -> Generator[None]:
    """A connection that failed because it was not let in says so, whatever the SDK made of that."""
    try:
        yield
    except Exception as error:
        if not auth.refusal:
            raise
        raise (SignInRequired if auth.signed_out else OAuthFlowError)(auth.refusal) from error


def fill_placeholders(values: Mapping[str, str], caller: Caller | None) -> dict[str, str]:
    """The values with the caller's own names in place of `{user}` and `{tenant}`."""
    if caller is None:
        return dict(values)
    own = {"{user}": caller.user, "{tenant}": caller.tenant}
    return {name: _PLACEHOLDERS.sub(lambda found: own[found[0]], value) for name, value in values.items()}


class _TrackingTransport(httpx2.AsyncHTTPTransport):
    """Notes what became of each request; one that could not be sent is answered as if by the server."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        sent = get_current_request()
        try:
            response = await super().handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            return _build_error_response(error, request, unreached=True)
        except httpx2.TransportError as error:
            return _build_error_response(error, request, unreached=False)
        if sent is not None:
            sent.status = response.status_code
        return limit_response(response)


def _build_error_response(error: httpx2.TransportError, request: httpx2.Request, *, unreached: bool) -> httpx2.Response:
    sent = get_current_request()
    if sent is None:
        raise error  # the handshake, or a stream of ours: nobody would see the answer
    sent.transport_error, sent.unreached = str(error) or type(error).__name__, unreached
    return httpx2.Response(503, request=request)
